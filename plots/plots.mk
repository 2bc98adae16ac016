# plots.mk -- make tiles, plots, plots-data and l2-model. Included by the Makefile, whose variables it uses.

.PHONY: tiles plots plots-data l2-model
tiles: $(program) $(emulated_modules) $(host_modules) ## bytes by tile sizes, and the shared memory each needs: N= DIM= BR= BC= PASS= CSV=1
	@$(program) tiles $(KNOBS) $(call knob,PASS,pass)

# No stage is run for this: the pictures come from CSV that is committed.
plots: ## draws the pictures in plots/ from plots/data and plots/recorded
	@sh plots/draw.sh $(BUILD)/plots

plots-data: $(program) $(emulated_modules) $(host_modules) ## renews plots/data on the emulator (a minute or two), for make plots
	@sh plots/data.sh $(program) plots/data

l2-model: $(program) $(emulated_modules) $(host_modules) ## renews plots/data/l2-model.csv on the emulator (ten minutes), for make tables: STAGES="naive ..."
	@sh plots/l2_model.sh $(program) plots $(STAGES)
