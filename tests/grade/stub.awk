# stub.awk -- an exercise without its answers, from the source that has them.
#
# Lines from "//<answer>" to "//</answer>" are left out. Among them, "//<stub> text" stands in for them: the
# text, indented likewise. With answers=1 it is the other way round.
/\/\/<answer>/ { inside = 1; next }
/\/\/<\/answer>/ { inside = 0; next }
/\/\/<stub>/ { if (!answers) { sub(/\/\/<stub> ?/, ""); print }; next }
!inside || answers { print }
