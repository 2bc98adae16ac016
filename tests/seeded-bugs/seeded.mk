# seeded.mk -- builds tests/seeded-bugs/*.cu for the emulator and, unless sanitizers are on, for the check
# build, with every compiler there is and at every level: build/seeded/<kind>-<compiler><level>.
# Included by the Makefile, whose variables it uses; tests/test_emulator.c runs what it built.

seeded_sources := $(wildcard tests/seeded-bugs/*.cu)
seeded_compilers := $(sort $(notdir $(CXX)) $(foreach c,g++ clang++,$(if $(shell command -v $(c)),$(c))))
seeded_levels := -O0 -O1 -O2
seeded_kinds := emulator $(if $(SAN),,check)
SEEDED_FLAGS = -I. -x c++ -std=c++17 -g $(WARN) -fPIC -fvisibility=hidden -MMD -MP
seeded_emulator = $(2) $(CPPFLAGS) $(SEEDED_FLAGS) $(SAN) $(3)
seeded_check = sh gpu/emulator/check_cxx.sh $(2) $(CPPFLAGS) $(SEEDED_FLAGS) $(3)
seeded_emulator_runtime = $(call objects,$(filter-out gpu/emulator/check%.c,$(wildcard gpu/emulator/*.c)))
seeded_check_runtime = $(call objects,$(wildcard gpu/emulator/*.c))

# $(1) kind, $(2) compiler, $(3) level
define seeded_program
seeded_programs += $(BUILD)/seeded/$(1)-$(2)$(3)
$(BUILD)/obj/seeded/$(1)-$(2)$(3)/%.o: tests/seeded-bugs/%.cu gpu/emulator/check_cxx.sh $(flags)
	@mkdir -p $$(@D)
	$(call seeded_$(1),$(1),$(2),$(3)) -c $$< -o $$@
$(BUILD)/seeded/$(1)-$(2)$(3): $(patsubst tests/seeded-bugs/%.cu,$(BUILD)/obj/seeded/$(1)-$(2)$(3)/%.o,$(seeded_sources)) $(seeded_$(1)_runtime) $(library)
	@mkdir -p $$(@D)
	$(CXX) $(OPENMP) $(SAN) $$^ -o $$@ $(LIBS)
endef
$(foreach k,$(seeded_kinds),$(foreach c,$(seeded_compilers),$(foreach l,$(seeded_levels),$(eval $(call seeded_program,$(k),$(c),$(l))))))

# With SAN, clang's objects would need clang's own sanitizers: only the compiler that links.
ifneq ($(SAN),)
seeded_programs := $(foreach l,$(seeded_levels),$(BUILD)/seeded/emulator-$(notdir $(CXX))$(l))
endif

.PHONY: seeded
seeded: $(seeded_programs)
$(BUILD)/obj/tests/test_emulator.c.o: CPPFLAGS += -DSEEDED_FOLDER='"$(BUILD)/seeded"' \
    -DSEEDED_QUICK='"-$(notdir $(CXX))-O1"'
