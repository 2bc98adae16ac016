# markdown.awk -- what links.awk and commands.awk share: which lines of a Markdown file are code blocks, and
# what stands in `code` in its text. For each line call read_line(); then
#   is_block  whether it belongs to a code block, fenced or indented by four, and block is its text
#   prose     else the line without its inline code
#   code[1..codes]  the inline code that ends on this line; it may have begun on a line before

function read_line(   parts, count, i) {
    if (FNR == 1) {
        fenced = in_code = was_block = 0
        was_blank = 1
    }
    codes = 0
    prose = block = ""
    is_block = 0
    if ($0 ~ /^ *```/) {
        fenced = !fenced
        return
    }
    if (fenced || ($0 ~ /^    / && (was_blank || was_block))) {
        is_block = was_block = 1
        block = $0
        sub(/^ */, "", block)
        return
    }
    was_blank = $0 ~ /^[ \t]*$/
    if (was_blank) {
        in_code = 0 # inline code ends with its paragraph
        return
    }
    was_block = 0
    count = split($0, parts, "`")
    for (i = 1; i <= count; i++) {
        if (i > 1 && in_code) code[++codes] = span
        if (i > 1) {
            in_code = !in_code
            span = ""
        }
        if (in_code) {
            span = span (i == 1 ? " " : "") parts[i]
        } else {
            prose = prose parts[i]
        }
    }
}
