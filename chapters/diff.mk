# diff.mk -- make diffN, for each chapter that has a before.txt. Included by the Makefile.

# $(1): the chapter's folder, $(2): its number as it is typed
define diff_target
diff_targets += diff$(2)
.PHONY: diff$(2)
diff$(2):
	@sh chapters/diff.sh chapters/$(1)
endef
$(foreach c,$(patsubst chapters/%/before.txt,%,$(wildcard chapters/*/before.txt)),$(eval $(call diff_target,$(c),$(patsubst 0%,%,$(call number,$(c))))))
