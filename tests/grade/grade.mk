# grade.mk -- make exerciseN, gradeN: copies an exercise for the learner, builds the answer, grades it.
# Included by tests.mk.

exercise_chapters := $(foreach c,$(CHAPTERS),$(if $(wildcard chapters/$(c)/exercise/exercise.*),$(c)))
plain_number = $(patsubst 0%,%,$(call number,$(1)))
exercise_source = $(firstword $(wildcard chapters/$(1)/exercise/exercise.c chapters/$(1)/exercise/exercise.cu))
exercise_work = chapters/$(1)/work/exercise$(call plain_number,$(1))$(suffix $(call exercise_source,$(1)))
exercise_targets := $(foreach c,$(exercise_chapters),exercise$(call plain_number,$(c)))
grade_targets := $(foreach c,$(exercise_chapters),grade$(call plain_number,$(c)))

grader := $(BUILD)/grader
$(grader): $(call objects,$(wildcard tests/grade/*.c)) $(library)
	$(call say,link,$@)
	$(quiet)$(CC) $(C_FLAGS) $^ -o $@ $(LIBS)

# ---- the answer's modules ---------------------------------------------------------------------------------
# $(1): folder, which has the answer as exercise.c or .cu, $(2): the chapter's folder, $(3): device. What the
# exercise is given, and the sources of the device, are built as always. $(4): more flags.
exercise_given = $(filter-out %/exercise.c %/exercise.cu,$(wildcard chapters/$(1)/exercise/*.c chapters/$(1)/exercise/*.cu))
exercise_objects = $(patsubst %,$(if $(filter host,$(2)),$(BUILD)/obj,$(BUILD)/obj/$(2))/%.o,$(call exercise_given,$(1)))
exercise_compile_host = $(CC) $(CPPFLAGS) $(C_FLAGS)
exercise_compile_emulator = $(CXX) $(CPPFLAGS) $(CU_FLAGS)
exercise_compile_check = sh gpu/emulator/check_cxx.sh $(CXX) $(CPPFLAGS) $(CU_FLAGS) -O1
exercise_runtime_emulator = $(call objects,$(runtime_sources))
exercise_runtime_check = $(call objects,$(check_sources))
define exercise_module
$(1)/$(3)/$(call number,$(2)).so: $(1)/exercise$(suffix $(call exercise_source,$(2))) $(call exercise_objects,$(2),$(3)) $(wildcard chapters/$(2)/exercise/*.h chapters/$(2)/exercise/*.cuh) $(exercise_runtime_$(3)) $(library)
	@mkdir -p $$(@D)
	$$(call say,$(3),$$<)
	$(quiet)$(exercise_compile_$(3)) $(4) -c $$< -o $$(@D)/exercise.o
	$(quiet)$(if $(filter host,$(3)),$(CC) $(C_FLAGS),$(CXX) $(OPENMP) $(SAN)) $(MODULE) $$(@D)/exercise.o $(call exercise_objects,$(2),$(3)) $(exercise_runtime_$(3)) $(library) -o $$@ $(LIBS)
endef
exercise_devices = $(if $(filter %.c,$(call exercise_source,$(1))),host,emulator check)
exercise_modules = $(foreach d,$(call exercise_devices,$(1)),$(2)/$(d)/$(call number,$(1)).so)
define exercise_modules_rules
$(foreach d,$(call exercise_devices,$(1)),$(eval $(call exercise_module,$(2),$(1),$(d),$(3))))
endef

# ---- make exerciseN, gradeN ---------------------------------------------------------------------------------
# WORK= names another answer than the learner's own, JUNIT= another file for the verdicts.
define exercise_rules
.PHONY: exercise$(call plain_number,$(1)) grade$(call plain_number,$(1))
exercise$(call plain_number,$(1)):
	@sh tests/grade/exercise.sh $(call plain_number,$(1)) $(call exercise_source,$(1)) $(call exercise_work,$(1))

# The answer under its own name in messages, and compiled anew only where it has changed.
$(BUILD)/grade/$(call plain_number,$(1))/exercise$(suffix $(call exercise_source,$(1))): FORCE
	@mkdir -p $$(@D)
	@{ echo '#line 1 "$(or $(WORK),$(call exercise_work,$(1)))"'; cat '$(or $(WORK),$(call exercise_work,$(1)))'; } > $$@.new
	@cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@
$(call exercise_modules_rules,$(1),$(BUILD)/grade/$(call plain_number,$(1)))

.PHONY: answer$(call plain_number,$(1))
answer$(call plain_number,$(1)): $(call exercise_modules,$(1),$(BUILD)/grade/$(call plain_number,$(1)))
grade$(call plain_number,$(1)): $(grader) $(BUILD)/host/$(first_number).so $(if $(filter $(first_number),$(call number,$(1))),$(BUILD)/emulator/$(first_number).so)
	@MAKE='$$(MAKE)' sh tests/grade/grade.sh $(call plain_number,$(1)) $(BUILD) '$(or $(WORK),$(call exercise_work,$(1)))' \
	    $(if $(SEED),--seed '$(SEED)') --junit '$(or $(JUNIT),$(BUILD)/grade/$(call plain_number,$(1))/junit.xml)'
endef
$(foreach c,$(exercise_chapters),$(eval $(call exercise_rules,$(c))))

# ---- wrong answers, for the tests: build/grade/wrong/NAME ---------------------------------------------------
# wrong.txt, which is not handed out, as words, name:file; and each exercise as the learner gets it.
wrong_table := $(wildcard tests/grade/wrong.txt)
wrong_rows := $(if $(wrong_table),$(shell awk '/^mutant/ { name = $$2 } /^file/ { print name ":" $$2 }' $(wrong_table)))
define wrong_rules
wrong_modules += $(call exercise_modules,$(3),$(BUILD)/grade/wrong/$(1))
$(BUILD)/grade/wrong/$(1)/$(notdir $(2)): $(2) $(wrong_table) tests/mutants/mutate.awk
	@mkdir -p $$(@D)
	@awk -v name=$(1) -f tests/mutants/mutate.awk $(wrong_table) $(2) > $$@
$(call exercise_modules_rules,$(3),$(BUILD)/grade/wrong/$(1),$(if $(filter %-answer,$(1)),,-w))
endef
$(foreach w,$(wrong_rows),$(eval $(call wrong_rules,$(call mutant_field,$(w),1),$(call mutant_field,$(w),2),$(call mutant_chapter,$(w)))))

define stub_rules
wrong_modules += $(call exercise_modules,$(1),$(BUILD)/grade/wrong/$(call plain_number,$(1))-stub)
$(BUILD)/grade/wrong/$(call plain_number,$(1))-stub/$(notdir $(call exercise_source,$(1))): $(call exercise_source,$(1)) tests/grade/stub.awk
	@mkdir -p $$(@D)
	@awk -f tests/grade/stub.awk $$< > $$@
$(call exercise_modules_rules,$(1),$(BUILD)/grade/wrong/$(call plain_number,$(1))-stub)
endef
$(foreach c,$(exercise_chapters),$(eval $(call stub_rules,$(c))))

.PHONY: wrong-answers exercises
exercises: $(foreach w,$(wrong_modules),$(if $(findstring -stub/,$(w))$(findstring -answer/,$(w)),$(w))) ## builds each exercise, as it is handed out and answered
wrong-answers: $(grader) $(BUILD)/host/$(first_number).so $(BUILD)/emulator/$(first_number).so $(wrong_modules) ## builds the wrong answers to the exercises

.PHONY: handout
handout: ## a copy of the tree without the answers to the exercises, for teachers
	@sh tests/grade/handout.sh $(BUILD)

# ---- make breakN: a chapter with one of its mutants -----------------------------------------------------------
# Each is also built for the device that the mutants' own test does not need; the two share the changed file.
break_chapters := $(foreach c,$(CHAPTERS),$(if $(wildcard chapters/$(c)/bugs.txt),$(c)))
break_targets := $(foreach c,$(break_chapters),break$(call plain_number,$(c)))
bug_mutants := $(if $(break_chapters),$(shell awk '/^mutant/ { print $$2 }' $(foreach c,$(break_chapters),chapters/$(c)/bugs.txt)))
tested_modules := $(mutant_modules)
define bug_module
$(call mutant_module,$(1),$(2),$(3),$(4),$(call number,$(4)),cu)
$(BUILD)/mutants/$(1)/$(3)/$(call number,$(4)).so: | $(BUILD)/mutants/$(1)/$(if $(filter check,$(3)),emulator,check)/$(call number,$(4)).so
endef
bug_row = $(call bug_module,$(call mutant_field,$(1),1),$(call mutant_field,$(1),2),$(if $(filter check,$(call mutant_field,$(1),3)),emulator,check),$(call mutant_chapter,$(1)))
$(foreach b,$(bug_mutants),$(foreach m,$(filter $(b):%,$(mutant_rows)),$(if $(filter host,$(call mutant_field,$(m),3)),,$(eval $(call bug_row,$(m))))))
mutant_modules := $(tested_modules)

define break_rules
.PHONY: break$(call plain_number,$(1))
break$(call plain_number,$(1)): $(grader) $(BUILD)/host/$(first_number).so
	@MAKE='$$(MAKE)' sh tests/grade/break.sh $(call plain_number,$(1)) $(BUILD) $(1) '$(BUG)'
endef
$(foreach c,$(break_chapters),$(eval $(call break_rules,$(c))))
