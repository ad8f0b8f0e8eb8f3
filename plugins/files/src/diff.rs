//! Line diffs in unified format.
//!
//! Owns the search for a short edit script (Myers, "An O(ND) difference algorithm", the forward greedy
//! form) and its printing with the headers of the official server. Refuses to search without end: beyond
//! [`MAX_STEPS`] the differing middle is shown as one block.
//!
//! INVARIANT: applying the printed script to the old text gives the new text.

/// Bounds time and memory: 12 bytes a step, so 6 MiB, enough for about 1000 changed lines.
const MAX_STEPS: usize = 500_000;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Keep,
    Remove,
    Add,
}

/// Compares two texts whose lines end with line feeds.
pub(crate) fn unified(path: &str, old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let script = shortest(&old, &new).unwrap_or_else(|| one_block(&old, &new));
    let rule = "=".repeat(67);
    let mut out = format!("Index: {path}\n{rule}\n--- {path}\toriginal\n+++ {path}\tmodified\n");
    for hunk in hunks(&script, &old, &new) {
        hunk.print(&mut out);
    }
    out
}

/// The end of a path through the edit graph: how its last step began and where the equal lines after it end.
struct Step {
    previous: Option<usize>,
    change: Change,
    kept: usize,
    end: usize,
}

/// Finds a shortest script, or nothing if that takes too many steps.
fn shortest(old: &[&str], new: &[&str]) -> Option<Vec<Change>> {
    let equal_from = |x: usize, y: usize| {
        let old = old.iter().skip(x);
        old.zip(new.iter().skip(y)).take_while(|(a, b)| a == b).count()
    };
    let kept = equal_from(0, 0);
    let mut steps = vec![Step { previous: None, change: Change::Keep, kept, end: kept }];
    if kept == old.len() && kept == new.len() {
        return Some(vec![Change::Keep; kept]);
    }
    // Diagonal k holds points with x - y = k; `best` is the furthest step on each, shifted to start at 0.
    let limit = old.len() + new.len();
    let shift = isize::try_from(limit).ok()? + 1;
    let at = |k: isize| usize::try_from(k + shift).unwrap_or(0);
    let mut best: Vec<Option<usize>> = vec![None; 2 * limit + 3];
    *best.get_mut(at(0))? = Some(0);
    let (mut low, mut high) = (isize::MIN, isize::MAX);
    for length in 1..=isize::try_from(limit).ok()? {
        let mut k = if low > -length { low } else { -length };
        while k <= high.min(length) {
            let end = |k: isize| {
                let step = best.get(at(k)).copied().flatten()?;
                Some((step, steps.get(step)?.end))
            };
            let point_y = |x: usize| isize::try_from(x).ok().and_then(|x| usize::try_from(x - k).ok());
            let remove = end(k - 1).filter(|(_, x)| *x < old.len());
            let add = end(k + 1).filter(|(_, x)| point_y(*x).is_some_and(|y| y <= new.len()));
            let (previous, change, x) = match (remove, add) {
                (Some((_, x)), Some((step, further))) if x < further => (step, Change::Add, further),
                (Some((step, x)), _) => (step, Change::Remove, x + 1),
                (None, Some((step, x))) => (step, Change::Add, x),
                (None, None) => {
                    *best.get_mut(at(k))? = None;
                    k += 2;
                    continue;
                }
            };
            let y = point_y(x)?;
            let kept = equal_from(x, y);
            let (x, y) = (x + kept, y + kept);
            steps.push(Step { previous: Some(previous), change, kept, end: x });
            let step = steps.len() - 1;
            if x == old.len() && y == new.len() {
                return Some(script(&steps, step));
            }
            if steps.len() > MAX_STEPS {
                return None;
            }
            *best.get_mut(at(k))? = Some(step);
            // A path at an edge of the graph can't get back over the diagonals beyond.
            if x == old.len() {
                high = high.min(k - 1);
            }
            if y == new.len() {
                low = low.max(k + 1);
            }
            k += 2;
        }
    }
    None
}

fn script(steps: &[Step], last: usize) -> Vec<Change> {
    let mut reversed = Vec::new();
    let mut next = steps.get(last);
    while let Some(step) = next {
        reversed.extend(std::iter::repeat_n(Change::Keep, step.kept));
        if step.change != Change::Keep {
            reversed.push(step.change);
        }
        next = step.previous.and_then(|previous| steps.get(previous));
    }
    reversed.reverse();
    reversed
}

/// Keeps what both texts begin and end with and replaces all between.
fn one_block(old: &[&str], new: &[&str]) -> Vec<Change> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut script = vec![Change::Keep; start];
    script.extend(std::iter::repeat_n(Change::Remove, old.len() - start - end));
    script.extend(std::iter::repeat_n(Change::Add, new.len() - start - end));
    script.extend(std::iter::repeat_n(Change::Keep, end));
    script
}

/// Lines that are printed together; the starts count from 0.
struct Hunk<'a> {
    old_start: usize,
    new_start: usize,
    lines: Vec<(Change, &'a str)>,
}

fn hunks<'a>(script: &[Change], old: &[&'a str], new: &[&'a str]) -> Vec<Hunk<'a>> {
    let changed: Vec<usize> = script
        .iter()
        .enumerate()
        .filter(|(_, change)| **change != Change::Keep)
        .map(|(index, _)| index)
        .collect();
    // Changes share a hunk unless more unchanged lines lie between than both contexts take.
    let groups = changed.chunk_by(|a, b| b - a - 1 <= 2 * CONTEXT);
    let ranges = groups
        .filter_map(|group| Some((group.first()?.saturating_sub(CONTEXT), group.last()? + CONTEXT + 1)));
    ranges
        .map(|(start, end)| {
            let before =
                |wanted: Change| script.iter().take(start).filter(|change| **change != wanted).count();
            let (old_start, new_start) = (before(Change::Add), before(Change::Remove));
            let (mut x, mut y) = (old.iter().skip(old_start), new.iter().skip(new_start));
            let lines = script.iter().take(end).skip(start).filter_map(|change| {
                let line = match change {
                    Change::Keep => {
                        y.next();
                        x.next()
                    }
                    Change::Remove => x.next(),
                    Change::Add => y.next(),
                };
                line.map(|line| (*change, *line))
            });
            Hunk { old_start, new_start, lines: lines.collect() }
        })
        .collect()
}

impl Hunk<'_> {
    fn print(&self, out: &mut String) {
        let count = |other: Change| self.lines.iter().filter(|(change, _)| *change != other).count();
        let (old, new) = (count(Change::Add), count(Change::Remove));
        // The format counts from 1, but names the line before where a side has none.
        let old_start = self.old_start + usize::from(old > 0);
        let new_start = self.new_start + usize::from(new > 0);
        out.push_str(&format!("@@ -{old_start},{old} +{new_start},{new} @@\n"));
        for (change, line) in &self.lines {
            out.push(match change {
                Change::Keep => ' ',
                Change::Remove => '-',
                Change::Add => '+',
            });
            out.push_str(line);
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, hunks, one_block, shortest, unified};

    fn lines(text: &str) -> Vec<&str> {
        text.split_inclusive('\n').collect()
    }

    fn apply(script: &[Change], old: &[&str], new: &[&str]) -> String {
        let (mut x, mut y, mut out) = (0, 0, String::new());
        for change in script {
            match change {
                Change::Keep => {
                    out += old[x];
                    (x, y) = (x + 1, y + 1);
                }
                Change::Remove => x += 1,
                Change::Add => {
                    out += new[y];
                    y += 1;
                }
            }
        }
        assert_eq!((x, y), (old.len(), new.len()));
        out
    }

    #[test]
    fn a_change_is_shown_with_four_lines_around() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\n5\nsix\n7\n8\n9";
        let expected = "Index: /f\n===================================================================\n\
            --- /f\toriginal\n+++ /f\tmodified\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n 5\n-6\n+six\n 7\n 8\n-9\n\
            +9\n\\ No newline at end of file\n";
        assert_eq!(unified("/f", old, new), expected);
    }

    #[test]
    fn an_empty_side_starts_at_the_line_before() {
        assert!(unified("/f", "", "a\n").ends_with("@@ -0,0 +1,1 @@\n+a\n"));
        assert!(unified("/f", "a\n", "").ends_with("@@ -1,1 +0,0 @@\n-a\n"));
    }

    #[test]
    fn every_script_leads_to_the_new_text() {
        let words = ["a\n", "b\n", "c\n"];
        // All pairs of texts of up to four lines of three kinds.
        let texts: Vec<String> = (0..121_u32)
            .map(|mut n| {
                let mut text = String::new();
                while n > 0 {
                    n -= 1;
                    text += words[(n % 3) as usize];
                    n /= 3;
                }
                text
            })
            .collect();
        for old in &texts {
            for new in &texts {
                let (old_lines, new_lines) = (lines(old), lines(new));
                let script = shortest(&old_lines, &new_lines).unwrap();
                assert_eq!(apply(&script, &old_lines, &new_lines), *new);
                assert_eq!(apply(&one_block(&old_lines, &new_lines), &old_lines, &new_lines), *new);
                assert!(old != new || hunks(&script, &old_lines, &new_lines).is_empty());
            }
        }
    }

    #[test]
    fn too_long_a_search_ends_in_one_block() {
        let old: String = (0..2000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..2000).map(|n| format!("new {n}\n")).collect();
        assert_eq!(shortest(&lines(&old), &lines(&new)), None);
        assert!(unified("/f", &old, &new).contains("@@ -1,2000 +1,2000 @@\n"));
    }
}
