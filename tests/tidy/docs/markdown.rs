//! The little of Markdown that the checks of the documents need.

use std::collections::BTreeSet;

/// The lines of a document, each with whether it is part of a code block.
fn marked_lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let (mut in_fence, mut in_indented, mut after_blank) = (false, false, true);
    text.lines().map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        in_indented = line.starts_with("    ") && (after_blank || in_indented);
        after_blank = line.trim().is_empty();
        (line, in_fence || is_fence || in_indented)
    })
}

/// Prose, headings and tables.
pub(super) fn lines_without_code(text: &str) -> impl Iterator<Item = &str> {
    marked_lines(text).filter_map(|(line, is_code)| (!is_code).then_some(line))
}

/// The lines of code blocks.
pub(super) fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    marked_lines(text).filter_map(|(line, is_code)| is_code.then_some(line.trim_start()))
}

/// The parts of a line that stand in backticks.
pub(super) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The cells of a table's row; `None` for other lines.
pub(super) fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

/// The only code span of a cell that is nothing else.
pub(super) fn only_code(cell: &str) -> Option<&str> {
    let inner = cell.strip_prefix('`')?.strip_suffix('`')?;
    (!inner.contains('`')).then_some(inner)
}

/// The targets of `[text](target)` in this tree; other places are not ours to check.
pub(super) fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
}

/// The anchors of a document's headings, as GitHub makes them.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in lines_without_code(text).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor: String = heading.chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone())
            .chain(repeated)
            .find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}
