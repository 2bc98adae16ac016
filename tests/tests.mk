# tests.mk -- builds build/tests and runs it: make test, test-quick, test-sanitize. Included by the
# Makefile, whose variables it uses.

test_program := $(BUILD)/tests
# calibrate.c is a program of its own (notes/precision.md).
test_sources := $(filter-out tests/calibrate.c,$(wildcard tests/*.c))
check_cflags := $(shell pkg-config --cflags check 2>/dev/null)
check_libs := $(or $(shell pkg-config --libs check 2>/dev/null),-lcheck)
$(call objects,$(test_sources)): CPPFLAGS += $(check_cflags)

$(test_program): $(call objects,$(test_sources)) $(library) | check-library
	$(call say,link,$@)
	$(quiet)$(CC) $(C_FLAGS) $^ -o $@ $(check_libs) $(LIBS)
$(call objects,$(test_sources)): | check-library

# Check, the library that runs the tests (not `make check`, the build that checks kernels).
.PHONY: check-library
check-library:
	@printf '#include <check.h>\nint main(void) { return 0; }\n' | \
	    $(CC) $(check_cflags) -x c - -x none -o /dev/null $(check_libs) 2> /dev/null || { \
	    echo 'The tests need Check, a library for unit tests, and it is not installed: type make deps'; exit 1; }

# ---- chapters that are none, beside the first, the yardstick: what the program prints of them -------------
fake_modules := $(BUILD)/fake/host/09.so $(BUILD)/fake/host/10.so $(BUILD)/fake/host/$(first_number).so
$(BUILD)/fake/host/09.so: $(call objects,tests/fake/varying.c)
$(BUILD)/fake/host/10.so: $(call objects,tests/fake/everything.c)
$(BUILD)/fake/host/09.so $(BUILD)/fake/host/10.so: $(library)
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(quiet)$(CC) $(C_FLAGS) $(MODULE) $(filter %.o,$^) $(library) -o $@ $(LIBS)
$(BUILD)/fake/host/$(first_number).so: $(BUILD)/host/$(first_number).so
	@mkdir -p $(@D)
	@cp $< $@
$(test_program): | $(fake_modules) $(trace_modules) $(silent_modules)

# ---- mutants: a module for each kernel that is broken on purpose -----------------------------------------
# tests/mutants/mutants.txt as words, name:file:device.
mutant_table := tests/mutants/mutants.txt
mutant_rows := $(shell awk '/^mutant/ { name = $$2 } /^file/ { file = $$2 } /^caught/ { \
    device = $$2 == "check" ? "check" : file ~ /\.cuh?$$/ ? "emulator" : "host"; \
    print name ":" file ":" device }' $(mutant_table))

mutant_prefix = $(if $(filter host,$(1)),$(BUILD)/obj,$(BUILD)/obj/$(1))
mutant_host = $(CC) $(CPPFLAGS) $(C_FLAGS)
mutant_emulator = $(CXX) $(CPPFLAGS) $(CU_FLAGS) -O1
mutant_check = sh gpu/emulator/check_cxx.sh $(CXX) $(CPPFLAGS) $(CU_FLAGS) -O1
mutant_runtime_emulator = $(call objects,$(runtime_sources))
mutant_runtime_check = $(call objects,$(check_sources))

# $(1): name, $(2): file, $(3): device, $(4): the chapter's folder, $(5): its number, $(6): c or cu.
# The changed file lies in a folder of its own that is searched before the project's. What includes it is
# compiled anew, quickly and without what debuggers need; all other objects are the real module's, which must therefore be
# there first, and whose .d files tell who includes what. Where the text to change is not found, no module is
# made, and the mutant's test fails: the other tests still run.
define mutant_module
mutant_modules += $(BUILD)/mutants/$(1)/$(3)/$(5).so
$(BUILD)/mutants/$(1)/$(3)/$(5).so: $(wildcard chapters/$(4)/*.*) $(mutant_table) tests/mutants/mutate.awk $(BUILD)/$(3)/$(5).so
	$$(call say,mutant,$(1))
	@mkdir -p $(BUILD)/mutants/$(1)/chapters/$(4) $(BUILD)/mutants/$(1)/$(3)
	@rm -f $$@ $(BUILD)/mutants/$(1)/$(3)/*.o
	@find $(BUILD)/mutants/$(1)/chapters -type f ! -path '$(BUILD)/mutants/$(1)/$(2)' -delete # an earlier mutant's of that name
	$(quiet)awk -v name=$(1) -f tests/mutants/mutate.awk $(mutant_table) $(2) > $(BUILD)/mutants/$(1)/$(2) || exit 0; \
	objects=; for source in $(wildcard chapters/$(4)/*.$(6)); do \
	    real=$(call mutant_prefix,$(3))/$$$$source; \
	    grep -q ' $(2)\( \|$$$$\)' $$$$real.d || { objects="$$$$objects $$$$real.o"; continue; }; \
	    changed=$(BUILD)/mutants/$(1)/$$$$source; \
	    object=$(BUILD)/mutants/$(1)/$(3)/$$$$(basename $$$$source).o; \
	    [ -f $$$$changed ] || changed=$$$$source; \
	    $(subst -I.,-I$(BUILD)/mutants/$(1) -I.,$(mutant_$(3))) -g0 -Wno-all -Wno-extra -c $$$$changed -o $$$$object || exit 1; \
	    objects="$$$$objects $$$$object"; \
	done; \
	$(if $(filter host,$(3)),$(CC) $(C_FLAGS),$(CXX) $(OPENMP) $(SAN)) $(MODULE) \
	    $$$$objects $(mutant_runtime_$(3)) $(library) -o $$@ $(LIBS)
endef
mutant_field = $(word $(2),$(subst :, ,$(1)))
mutant_chapter = $(word 2,$(subst /, ,$(call mutant_field,$(1),2)))
$(foreach m,$(mutant_rows),$(eval $(call mutant_module,$(call mutant_field,$(m),1),$(call mutant_field,$(m),2),$(call mutant_field,$(m),3),$(call mutant_chapter,$(m)),$(firstword $(subst -, ,$(call mutant_chapter,$(m)))),$(if $(filter host,$(call mutant_field,$(m),3)),c,cu))))

# The tables of notes/precision.md.
.PHONY: calibrate
calibrate: $(BUILD)/calibrate ## measures what right and broken kernels are off by; renews notes/precision.md
	$(BUILD)/calibrate 20 notes/precision.md
$(BUILD)/calibrate: $(call objects,tests/calibrate.c tests/rounding.c cpu/cli/generated.c) $(library)
	$(quiet)$(CC) $(C_FLAGS) $^ -o $@ $(LIBS)

.PHONY: mutants
mutants: $(mutant_modules) ## builds the kernels that are broken on purpose

include tests/seeded-bugs/seeded.mk
include tests/grade/grade.mk

# ---- running -------------------------------------------------------------------------------------------
# QUICK=1: fewer and smaller cases of every suite.
test_arguments = $(if $(QUICK),--quick) $(if $(DEVICE),--device $(DEVICE)) $(if $(SUITE),--suite $(SUITE))
.PHONY: test-sanitize test-sanitized
test: build $(test_program) $(seeded_programs) $(mutant_modules) wrong-answers ## builds everything and passes all tests: DEVICE= SUITE=
	@$(test_program) $(test_arguments)

# One compiler and one level of the seeded bugs, and no mutants.
test-quick: build $(test_program) $(filter %-$(notdir $(CXX))-O1,$(seeded_programs)) ## the same on a small selection of cases
	@$(test_program) --quick $(test_arguments)

# The same tests under gcc's address and undefined-behaviour sanitizers. The check build is a sanitizer
# itself and does not go together with these; mutants are wrong on purpose, and are left out.
SANITIZERS = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
test-sanitize: ## the suites under AddressSanitizer and UBSan: QUICK=1
	@$(MAKE) --no-print-directory BUILD=build/asan CC=gcc CXX=g++ SAN='$(SANITIZERS)' OPT=-O1 \
	    EMULATOR_OPT=-O1 test-sanitized
test-sanitized: $(program) $(host_modules) $(filter $(BUILD)/emulator/%,$(emulated_modules)) $(test_program) $(seeded_programs)
	@$(test_program) $(test_arguments)

# What the texts tell a reader to type: tests/texts/commands.sh.
.PHONY: test-commands
test-commands: build $(test_program) ## runs the commands in README, chapters and notes, on small problems (a minute or two)
	@sh tests/texts/commands.sh
