# Makefile -- every command a reader types. `make` alone prints them.
#
# Each chapter is built into one shared object a device, build/<device>/<NN>.so, from the .c (host) or
# the .cu files in its folder; build/attention loads those that are there. A new chapter is a folder:
# nothing in this file names one.

.DEFAULT_GOAL := help
BUILD ?= build
CHAPTERS := $(sort $(patsubst chapters/%/,%,$(wildcard chapters/[0-9][0-9]-*/)))
chapter_numbers := $(foreach c,$(CHAPTERS),$(firstword $(subst -, ,$(c))))
chapter_targets := $(foreach n,$(chapter_numbers),chapter$(patsubst 0%,%,$(n)))

# ---- knobs --------------------------------------------------------------------------------------------
# All that may stand as NAME=value behind `make`. Any other name would change nothing, without a word.
problem_knobs := N QLEN KVLEN BATCH HEADS KVHEADS DIM SCALE SEED KIND BR BC CAUSAL WINDOW INPUT \
    WINDOWRIGHT ALIGN LENGTHS SOFTCAP ALIBI BIAS DBIAS MASK DROPOUT LAYOUT
run_knobs := DEVICE REPEAT CSV FALLBACK TO COUNT PASS SIZES STAGES QUICK SUITE WORK JUNIT BUG
build_knobs := CC CXX NVCC PYTHON ARCH BUILD OPT EMULATOR_OPT MARCH OPENMP CPPFLAGS SAN WERROR V SHELL
environment_knobs := EMULATED_GPU ATTENTION_% OMP_% CUDA_% TMPDIR
knobs := $(problem_knobs) $(run_knobs) $(build_knobs) $(environment_knobs)
unknown_knobs := $(filter-out $(knobs),$(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v))))
ifneq ($(strip $(unknown_knobs)),)
$(error there is no knob $(firstword $(unknown_knobs)): it would change nothing; there are $(problem_knobs) $(run_knobs) $(build_knobs) EMULATED_GPU, and those that begin with ATTENTION_ OMP_ CUDA_)
endif

# ---- deps first ---------------------------------------------------------------------------------------
# What `deps` installs, the compiler among it, is looked for below. So with `deps` on the command line
# everything else waits for it, under -j too, and is then made by a make of its own.
others := $(filter-out deps,$(MAKECMDGOALS))
ifneq ($(filter deps,$(MAKECMDGOALS)),)

.PHONY: deps $(others)
deps:
	@sh cpu/setup/deps.sh
ifneq ($(others),)
$(firstword $(others)): deps
	@$(MAKE) --no-print-directory $(others)
$(wordlist 2,$(words $(others)),$(others)): $(firstword $(others)) ;
endif

else

# ---- what this machine has ------------------------------------------------------------------------------
# Probed once for a compiler and kept in build/config-*.mk: OPENMP, MARCH, and whether CHECK is there.
ifeq ($(origin CC),default)
CC := $(shell command -v gcc 2>/dev/null || command -v clang 2>/dev/null || echo cc)
endif
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),$(subst gcc,g++,$(CC)))
endif
NVCC ?= $(shell command -v nvcc 2>/dev/null || ls /usr/local/cuda/bin/nvcc 2>/dev/null)

config := $(BUILD)/config-$(subst /,_,$(CC)).mk
ifneq ($(filter-out help doctor clean,$(or $(MAKECMDGOALS),help)),)
-include $(config)
endif

SAN ?=
OPT ?= -O3
EMULATOR_OPT ?= -O2
WARN := -Wall -Wextra $(if $(WERROR),-Werror)
COMMON = -I. $(WARN) -g $(MARCH) $(OPENMP) $(SAN) -fPIC -fvisibility=hidden -MMD -MP
C_FLAGS = -std=gnu11 $(OPT) $(COMMON)
CU_FLAGS = -x c++ -std=c++17 -Wno-unknown-pragmas $(EMULATOR_OPT) $(COMMON)
# A module with a name that nobody defines fails where it is linked, not where it is loaded (sanitizers
# define theirs in the program; on macOS this is the linker's own habit).
darwin := $(filter Darwin,$(shell uname -s))
LIBS = -lm $(if $(darwin),,-ldl -lpthread)
MODULE = -shared $(if $(darwin)$(SAN),,-Wl,-z,defs)

# One short line a file; V=1 shows the whole commands.
quiet := $(if $(V),,@)
say = $(if $(V),,@printf '  %-9s %s\n' '$(1)' '$(2)')

# Objects depend on this file, which changes when the compiler or a flag does, or a source is removed.
flags := $(BUILD)/flags
flags_text = $(CC) $(CXX) $(CPPFLAGS) $(C_FLAGS) $(CU_FLAGS) $(NVCC) $(nvcc_arch) $(wildcard cpu/*.c cpu/cli/*.c gpu/*/*.c gpu/*/*.cu chapters/*/*.c chapters/*/*.cu)
$(flags): FORCE
	@mkdir -p $(@D)
	@echo '$(flags_text)' | cmp -s - $@ || echo '$(flags_text)' > $@
.PHONY: FORCE
FORCE:

$(config): cpu/setup/config.sh
	@mkdir -p $(@D)
	@CC='$(CC)' CXX='$(CXX)' sh cpu/setup/config.sh > $@

# ---- the program, and what modules link --------------------------------------------------------------------
objects = $(patsubst %,$(BUILD)/obj/%.o,$(1))
library_sources := $(wildcard cpu/*.c)
library := $(BUILD)/cpu.a
program := $(BUILD)/attention

$(BUILD)/obj/%.c.o: %.c $(flags)
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(quiet)$(CC) $(CPPFLAGS) $(C_FLAGS) $(EXTRA) -c $< -o $@

# The reference's every rounding is written in its source.
$(BUILD)/obj/cpu/reference.c.o: EXTRA := -ffp-contract=off
# So are the random numbers', which are the same on every machine.
$(BUILD)/obj/cpu/random.c.o $(BUILD)/obj/cpu/input.c.o: EXTRA := -ffp-contract=off

# To a name of its own first: another make in this folder may be linking the old one.
$(library): $(call objects,$(library_sources))
	$(quiet)part=$@.$$$$; rm -f $$part && ar rcs $$part $^ && mv -f $$part $@ || { rm -f $$part; exit 1; }

$(program): $(call objects,$(wildcard cpu/cli/*.c)) $(library)
	$(call say,link,$@)
	$(quiet)$(CC) $(C_FLAGS) $^ -o $@ $(LIBS)

# ---- host modules --------------------------------------------------------------------------------------------
# $(1): folder of the chapter, $(2): its number. Chapters without .c or .cu files have no such module.
sources_c = $(wildcard chapters/$(1)/*.c)
sources_cu = $(wildcard chapters/$(1)/*.cu)

define host_module
host_modules += $(BUILD)/host/$(2).so
modules_$(2) += $(BUILD)/host/$(2).so
$(BUILD)/host/$(2).so: $(call objects,$(call sources_c,$(1))) $(library)
	@mkdir -p $$(@D)
	$$(call say,link,$$@)
	$(quiet)$(CC) $(C_FLAGS) $(MODULE) $$^ -o $$@ $(LIBS)
endef
number = $(firstword $(subst -, ,$(1)))
$(foreach c,$(CHAPTERS),$(if $(call sources_c,$(c)),$(eval $(call host_module,$(c),$(call number,$(c))))))

# ---- the emulator and the check build: the same .cu files, compiled for the CPU ------------------------------
runtime_sources := $(filter-out gpu/emulator/check%.c,$(wildcard gpu/emulator/*.c))
check_sources := $(wildcard gpu/emulator/*.c)

$(BUILD)/obj/emulator/%.cu.o: %.cu $(flags)
	@mkdir -p $(@D)
	$(call say,emulator,$<)
	$(quiet)$(CXX) $(CPPFLAGS) $(CU_FLAGS) -c $< -o $@

# -fsanitize=thread makes the compiler announce each memory access; gpu/emulator answers, not libtsan.
$(BUILD)/obj/check/%.cu.o: %.cu $(flags) gpu/emulator/check_cxx.sh
	@mkdir -p $(@D)
	$(call say,check,$<)
	$(quiet)sh gpu/emulator/check_cxx.sh $(CXX) $(CPPFLAGS) $(CU_FLAGS) -O1 -c $< -o $@

define emulator_modules
emulated_modules += $(BUILD)/emulator/$(2).so $(BUILD)/check/$(2).so
modules_$(2) += $(BUILD)/emulator/$(2).so $(BUILD)/check/$(2).so
$(BUILD)/emulator/$(2).so: $(patsubst %,$(BUILD)/obj/emulator/%.o,$(call sources_cu,$(1))) $(call objects,$(runtime_sources)) $(library)
	@mkdir -p $$(@D)
	$$(call say,link,$$@)
	$(quiet)$(CXX) $(OPENMP) $(SAN) $(MODULE) $$^ -o $$@ $(LIBS)
$(BUILD)/check/$(2).so: $(patsubst %,$(BUILD)/obj/check/%.o,$(call sources_cu,$(1))) $(call objects,$(check_sources)) $(library)
	@mkdir -p $$(@D)
	$$(call say,link,$$@)
	$(quiet)$(CXX) $(OPENMP) $(SAN) $(MODULE) $$^ -o $$@ $(LIBS)
endef
$(foreach c,$(CHAPTERS),$(if $(call sources_cu,$(c)),$(eval $(call emulator_modules,$(c),$(call number,$(c))))))

# ---- CUDA: built where there is a GPU, for that GPU; `make cuda` and ARCH= build without one -----------------
gpu_capability := $(if $(NVCC),$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .))
ARCH ?= $(or $(gpu_capability),80 90)
newest_arch = $(lastword $(sort $(ARCH)))
nvcc_arch = $(foreach a,$(ARCH),-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_$(newest_arch),code=compute_$(newest_arch)
NVCC_FLAGS = -I. -std=c++17 -O3 -lineinfo $(nvcc_arch) $(CPPFLAGS) -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra

$(BUILD)/obj/gpu/%.cu.o: %.cu $(flags)
	@mkdir -p $(@D)
	$(call say,nvcc,$<)
	$(quiet)$(NVCC) $(NVCC_FLAGS) -Xptxas -v -MMD -MP -MF $(@:.o=.d) -c $< -o $@ 2> $(@:.o=.log) || { cat $(@:.o=.log); exit 1; }

# The counting build: the same kernels, with a counter in every access to device memory.
$(BUILD)/obj/count/%.cu.o: %.cu $(flags)
	@mkdir -p $(@D)
	$(call say,count,$<)
	$(quiet)$(NVCC) $(NVCC_FLAGS) -DATTN_COUNT -rdc=true -MMD -MP -MF $(@:.o=.d) -c $< -o $@

cuda_sources := $(wildcard gpu/cuda/*.cu)
define gpu_module
gpu_modules += $(BUILD)/gpu/$(2).so
$(if $(gpu_capability),modules_$(2) += $(BUILD)/gpu/$(2).so)
$(BUILD)/gpu/$(2).so: $(patsubst %,$(BUILD)/obj/gpu/%.o,$(call sources_cu,$(1)) $(filter-out gpu/cuda/count.cu,$(cuda_sources))) $(library)
	@mkdir -p $$(@D)
	$$(call say,link,$$@)
	$(quiet)$(NVCC) $(nvcc_arch) -shared $$^ -o $$@

count_modules += $(BUILD)/count/$(2).so
$(BUILD)/count/$(2).so: $(patsubst %,$(BUILD)/obj/count/%.o,$(call sources_cu,$(1)) $(cuda_sources)) $(library)
	@mkdir -p $$(@D)
	$$(call say,link,$$@)
	$(quiet)$(NVCC) $(nvcc_arch) -rdc=true -shared $$^ -o $$@
endef
$(foreach c,$(CHAPTERS),$(if $(call sources_cu,$(c)),$(eval $(call gpu_module,$(c),$(call number,$(c))))))

# ---- commands: knobs, chapters -------------------------------------------------------------------------------------
knob = $(if $($(1)),--$(2) '$($(1))')
KNOBS = $(call knob,N,n) $(call knob,QLEN,qlen) $(call knob,KVLEN,kvlen) $(call knob,BATCH,batch) \
        $(call knob,HEADS,heads) $(call knob,KVHEADS,kvheads) $(call knob,DIM,dim) \
        $(call knob,SCALE,scale) $(call knob,SEED,seed) $(call knob,KIND,kind) $(call knob,BR,br) \
        $(call knob,BC,bc) $(call knob,CAUSAL,causal) $(call knob,WINDOW,window) \
        $(call knob,WINDOWRIGHT,window-right) $(call knob,ALIGN,align) $(call knob,LENGTHS,lengths) \
        $(call knob,SOFTCAP,softcap) $(call knob,ALIBI,alibi) $(call knob,BIAS,bias) \
        $(call knob,DBIAS,dbias) $(call knob,MASK,mask) $(call knob,DROPOUT,dropout) \
        $(call knob,LAYOUT,layout) $(call knob,DEVICE,device) $(call knob,REPEAT,repeat) $(if $(CSV),--csv)
# Modules for a GPU that this machine lacks may be there, from `make cuda`: they too are kept up to date.
all_modules := $(host_modules) $(emulated_modules) $(if $(gpu_capability),$(gpu_modules)) \
    $(wildcard $(gpu_modules) $(count_modules))
# With these knobs a chapter may need another one's stage in the place of its own.
fallback_knobs := LENGTHS SOFTCAP ALIBI BIAS MASK DROPOUT LAYOUT
fallbacks = $(if $(strip $(foreach k,$(fallback_knobs),$($(k)))),$(filter-out $(BUILD)/check/%,$(all_modules)))
# Chapter 1 is every chapter's yardstick.
first_number := $(firstword $(chapter_numbers))

.PHONY: help deps doctor chapters $(chapter_targets) build check cuda test test-quick bench format format-check static-check tables traffic features ncu record peers clean
# What a learner types comes first, in this order; then whatever else has a comment after ##.
learners_targets := deps doctor chapters scenarios features traffic tiles plots
documented := cat Makefile tests/tests.mk tests/grade/grade.mk plots/plots.mk 2>/dev/null | grep -E '^[a-z0-9-]+:.*\#\#' | sed -e 's/:[^\#]*\#\#/\#\#/'
learners_pattern := ^($(subst $() ,|,$(strip $(learners_targets))))\#\#
two_columns := awk -F'\#\# ' '{printf "  make %-14s %s\n", $$1, $$2}'
help: ## this list
	@printf '%s\n' 'To learn:'
	@printf '  make %-14s %s\n' chapterN 'builds, proves and measures one chapter: $(chapter_targets)' \
	    traceN 'a tiny problem step by step, as the chapter computes it: $(trace_targets)' \
	    diffN 'what the chapter changed in the one before: $(diff_targets)' \
	    exerciseN 'copies an exercise to where you work on it: $(exercise_targets)' \
	    gradeN 'grades it, and says what is wrong and where: WORK= another answer, JUNIT= SEED=' \
	    breakN 'lists bugs to plant in a chapter, and shows what one does: BUG=name'
	@for t in $(learners_targets); do $(documented) | grep "^$$t#"; done | $(two_columns)
	@printf '%s\n' '' 'To work on it, to test it, and to measure on a GPU:'
	@$(documented) | grep -v -E '$(learners_pattern)' | $(two_columns)
	@printf '%s\n' '' 'Knobs of a chapter: N= QLEN= KVLEN= BATCH= HEADS= KVHEADS= DIM= SCALE= SEED= BR= BC=' \
	    '  KIND=normal|outliers|wide|equal|rising (random input) INPUT=folder (your own) CAUSAL=1 ALIGN=top-left' \
	    '  WINDOW= WINDOWRIGHT= LENGTHS=100,0,28 SOFTCAP= ALIBI=1 BIAS=one|each DBIAS=1 MASK=one|each DROPOUT=' \
	    '  LAYOUT=bnhd DEVICE=host|emulator|check|gpu REPEAT= CSV=1 FALLBACK=0. Example: make chapter1 N=2048 CAUSAL=1' \
	    '  The GPU that the emulator stands for: EMULATED_GPU=H100 (the default), A100, T4 ...; a wrong name is told all' \
	    '  Of the build: CC= CXX= NVCC= ARCH= BUILD=folder OPT= V=1 (whole commands)'

deps: ## installs a compiler, Check and gnuplot where they are missing: make deps chapters
	@sh cpu/setup/deps.sh

doctor: ## says what this machine has, and what each missing piece costs you
	@CC='$(CC)' CXX='$(CXX)' NVCC='$(NVCC)' sh cpu/setup/doctor.sh

build: $(program) $(all_modules) ## builds the program and every chapter

CHAPTER_KNOBS = $(call knob,INPUT,input) $(if $(filter 0,$(FALLBACK)),--no-fallback)
define chapter_target
chapter$(patsubst 0%,%,$(1)): $(program) $$(modules_$(first_number)) $$(modules_$(1)) $$(fallbacks)
	@$(program) chapter $(patsubst 0%,%,$(1)) $$(KNOBS) $$(CHAPTER_KNOBS)
endef
$(foreach n,$(chapter_numbers),$(eval $(call chapter_target,$(n))))

chapters: build ## builds, proves and measures every chapter there is
	@worst=0; for n in $(patsubst 0%,%,$(chapter_numbers)); do \
	    $(program) chapter $$n $(KNOBS) $(CHAPTER_KNOBS) || worst=$$?; echo; \
	done; exit $$worst

ifeq ($(NVCC),)
cuda:
	@echo 'make cuda needs nvcc, of the CUDA toolkit, and finds none on the PATH or in /usr/local/cuda/bin; NVCC= names another' >&2; exit 2
else
cuda: $(gpu_modules) $(count_modules) ## compiles every .cu with nvcc for ARCH (GPU or not), and shows registers and spills
	@sh gpu/cuda/report.sh $(BUILD)/obj/gpu
endif

check: $(program) $(emulated_modules) $(host_modules) ## runs all CUDA stages under the emulator's checks
	@for c in tests/golden/*/; do \
	    $(program) check all --device check --case $$c > $(BUILD)/check.log 2>&1 || \
	        grep -q 'no stage does this case' $(BUILD)/check.log || { cat $(BUILD)/check.log; exit 1; }; \
	    grep ^PASS $(BUILD)/check.log || echo "skipped: no CUDA stage does $$c"; \
	done
	@echo 'Bank conflicts and sectors, place by place: $(program) check all --device check --case FOLDER'

bench: build ## times the host's stages against an FMA probe and renews the table in README.md
	$(program) bench $(KNOBS) $(if $(CSV)$(filter gpu,$(DEVICE)),,$(foreach f,README.md $(shell grep -l "bench:begin" chapters/*/README.md),--write-table $(f)))

traffic: $(program) $(emulated_modules) $(host_modules) $(if $(gpu_capability),$(count_modules)) ## bytes by formula, by count and behind the L2: N= TO= COUNT= PASS= DEVICE=gpu CSV=1
	@$(program) traffic $(KNOBS) $(call knob,TO,to) $(call knob,COUNT,count-to) $(call knob,PASS,pass)

features: build ## what each feature costs the stage that does them all: N= DIM= DEVICE= CSV=1
	@$(program) features $(KNOBS)
.PHONY: scenarios
scenarios: $(program) $(emulated_modules) $(host_modules) $(if $(gpu_capability),$(gpu_modules)) ## training, prefill and decoding: FLOPs, bytes, memory, blocks, and times: CSV=1
	@$(program) scenarios $(KNOBS)

ncu: build ## measures DRAM bytes with Nsight Compute, where that is allowed: SIZES="B:H:N:D ..."
	@sh gpu/cuda/ncu.sh $(program) plots/recorded $(SIZES)
	@echo 'The L2 model beside it, and the tables in the READMEs: make l2-model tables'

record: build ## times the GPU's stages for the tables and plots (some minutes), into plots/recorded
	@sh plots/record.sh $(program) plots/recorded

PYTHON ?= python3
peers: build ## times the GPU's stages beside cuBLAS' sgemm and PyTorch's attention, and a copy, in turn; needs PyTorch
	@command -v $(PYTHON) > /dev/null || { echo 'make peers needs Python 3 with PyTorch, and there is no $(PYTHON); PYTHON= names another' >&2; exit 2; }
	@$(PYTHON) gpu/cuda/peers.py $(BUILD) plots/recorded

formatted = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh')
format: ## runs clang-format over all sources
	@clang-format -i $(formatted)
format-check: ## fails where clang-format would change a source
	@clang-format --dry-run --Werror $(formatted)
static-check: ## runs cppcheck over the host's sources
	@cppcheck --quiet --std=c11 --language=c -I. --enable=warning,portability --inline-suppr --suppress=varFuncNullUB --error-exitcode=1 $(filter %.c,$(formatted))

tables: build ## renews the generated tables that need no measurement: of the chapters, and of plots/recorded
	$(program) list --write-table README.md
	@sh plots/tables.sh renew

.PHONY: ncu-requests requests
ncu-requests: build ## counts with Nsight Compute what `make requests` counts on the check build (a minute)
	@sh gpu/cuda/ncu.sh $(program) plots/recorded requests

requests: $(program) $(emulated_modules) $(host_modules) ## renews plots/data/requests.csv on the check build (half a minute), for make tables
	@sh plots/requests.sh $(program) plots

clean: ## removes what was built
	rm -rf $(BUILD)

include cpu/trace/trace.mk
include chapters/diff.mk
-include tests/tests.mk
-include plots/plots.mk
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

endif
