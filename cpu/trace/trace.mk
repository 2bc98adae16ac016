# trace.mk -- make traceN, for each chapter that has a folder trace/: its files are built into a module of
# their own, build/trace/NN.so, with the hooks of hooks.h in them. Included by the Makefile.

trace_chapters := $(patsubst chapters/%/trace/,%,$(wildcard chapters/*/trace/))
trace_sources = $(wildcard chapters/$(1)/trace/*.c chapters/$(1)/trace/*.cu)

# Each rounding as it is written: what a hook looks at, a compiler must round, and what it does not look at
# it might not. The silent modules are the same without hooks, for the tests: the bits must be the same.
trace_flags = -DATTN_TRACE -ffp-contract=off
$(BUILD)/obj/silent/%: trace_flags += -DATTN_TRACE_SILENT

define trace_objects
$(BUILD)/obj/$(1)/%.c.o: %.c $(flags)
	@mkdir -p $$(@D)
	$$(call say,$(1),$$<)
	$(quiet)$$(CC) $$(CPPFLAGS) $$(trace_flags) $$(C_FLAGS) -c $$< -o $$@
$(BUILD)/obj/$(1)/%.cu.o: %.cu $(flags)
	@mkdir -p $$(@D)
	$$(call say,$(1),$$<)
	$(quiet)$$(CXX) $$(CPPFLAGS) $$(trace_flags) $$(CU_FLAGS) -c $$< -o $$@
endef
$(foreach kind,trace silent,$(eval $(call trace_objects,$(kind))))

# $(1): the chapter's folder, $(2): its number, $(3): trace or silent
define trace_module
$(3)_modules += $(BUILD)/$(3)/$(2).so
$(BUILD)/$(3)/$(2).so: $(patsubst %,$(BUILD)/obj/$(3)/%.o,$(call trace_sources,$(1)) $(wildcard cpu/trace/*.c)) \
    $(if $(wildcard chapters/$(1)/trace/*.cu),$(call objects,$(runtime_sources))) $(library)
	@mkdir -p $$(@D)
	$$(call say,link,$$@)
	$(quiet)$(CXX) $(OPENMP) $(SAN) $(MODULE) $$^ -o $$@ $(LIBS)
endef
$(foreach c,$(trace_chapters),$(foreach kind,trace silent,$(eval $(call trace_module,$(c),$(call number,$(c)),$(kind)))))

# $(1): the number as it is typed, $(2): with two digits
define trace_target
trace_targets += trace$(1)
.PHONY: trace$(1)
trace$(1): $(program) $(BUILD)/host/$(first_number).so $(BUILD)/trace/$(2).so
	@$(program) trace $(1) $$(KNOBS)
endef
$(foreach c,$(trace_chapters),$(eval $(call trace_target,$(patsubst 0%,%,$(call number,$(c))),$(call number,$(c)))))
