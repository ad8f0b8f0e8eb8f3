//! Which calls of several recordings belong together.
//!
//! Owns the alignment: recordings join one after the other, and each join is a longest common subsequence over
//! what a call is (its tool, and what that may do). Of the longest, the one is taken that keeps the most calls
//! which every recording so far has, then the most at all, then the one whose calls are made most alike, then
//! the earliest. Refuses to guess beyond that, and to take time without end.
//!
//! **Invariant:** every call stands in exactly one column, and columns keep the order of every recording.

use std::cmp::Reverse;

/// Most comparisons of one join: two recordings of 4,000 calls. That is a quarter of a second and 16 MB.
pub(super) const MAX_CELLS: usize = 16_000_000;

/// What is compared of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// Calls of different kinds never belong together.
    pub(super) kind: u32,
    /// How its arguments are made, and what they are: hashes, sorted.
    pub(super) made: Vec<u64>,
    pub(super) held: Vec<u64>,
}

/// Calls that belong together: for each recording the number of its call, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) calls: Vec<Option<usize>>,
}

impl Column {
    /// Whether every recording has the call.
    pub(super) fn is_full(&self) -> bool {
        self.calls.iter().all(Option::is_some)
    }
}

/// What speaks for one way to align: the more, the better, the first number first.
type Score = (u32, u32, u32);

/// Aligns recordings. The error is the number of the recording, from 0, that would take too many comparisons,
/// and how many.
pub(super) fn align(recordings: &[Vec<Call>]) -> Result<Vec<Column>, (usize, usize)> {
    let mut columns: Vec<(&Call, Column)> = Vec::new();
    for (number, calls) in recordings.iter().enumerate() {
        let pairs = pairs(&columns, calls).map_err(|cells| (number, cells))?;
        columns = join(columns, calls, &pairs, number);
    }
    let full = |(_, mut column): (&Call, Column)| {
        column.calls.resize(recordings.len(), None);
        column
    };
    Ok(columns.into_iter().map(full).collect())
}

/// The columns with one more recording; `pairs` are those of a column and a call.
fn join<'c>(
    columns: Vec<(&'c Call, Column)>,
    calls: &'c [Call],
    pairs: &[(usize, usize)],
    number: usize,
) -> Vec<(&'c Call, Column)> {
    let mut joined = Vec::with_capacity(columns.len());
    let mut waiting = calls.iter().enumerate().peekable();
    let mut pairs = pairs.iter().peekable();
    let alone = |(own, call): (usize, &'c Call)| {
        let mut calls = vec![None; number];
        calls.push(Some(own));
        (call, Column { calls })
    };
    for (at, (call, mut column)) in columns.into_iter().enumerate() {
        let own = pairs.next_if(|(paired, _)| *paired == at).map(|(_, own)| *own);
        if let Some(own) = own {
            while let Some(earlier) = waiting.next_if(|(waits, _)| *waits < own) {
                joined.push(alone(earlier));
            }
            waiting.next();
        }
        column.calls.push(own);
        joined.push((call, column));
    }
    joined.extend(waiting.map(alone));
    joined
}

/// How alike two calls are made.
fn likeness(one: &Call, two: &Call) -> u32 {
    // That both take a value from the same place says more than that both have it.
    4 * common(&one.made, &two.made) + common(&one.held, &two.held)
}

fn common(one: &[u64], two: &[u64]) -> u32 {
    let (mut one, mut two) = (one.iter().peekable(), two.iter().peekable());
    let mut count = 0;
    while let (Some(a), Some(b)) = (one.peek(), two.peek()) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => drop(one.next()),
            std::cmp::Ordering::Greater => drop(two.next()),
            std::cmp::Ordering::Equal => {
                count += 1;
                one.next();
                two.next();
            }
        }
    }
    count
}

fn pairs(columns: &[(&Call, Column)], calls: &[Call]) -> Result<Vec<(usize, usize)>, usize> {
    // The same calls in the same order: nothing is left to choose.
    let kinds = columns.iter().map(|(call, _)| call.kind);
    if columns.iter().all(|(_, column)| column.is_full()) && kinds.eq(calls.iter().map(|call| call.kind)) {
        return Ok((0..calls.len()).map(|at| (at, at)).collect());
    }
    // What begins or ends alike belongs together in one of the best ways.
    let certain = |(column, call): &(&(&Call, Column), &Call)| column.1.is_full() && column.0 == *call;
    let start = columns.iter().zip(calls).take_while(certain).count();
    let (inner, rest) = (columns.get(start..).unwrap_or_default(), calls.get(start..).unwrap_or_default());
    let end = inner.iter().rev().zip(rest.iter().rev()).take_while(certain).count();
    let inner = inner.get(..inner.len() - end).unwrap_or_default();
    let rest = rest.get(..rest.len() - end).unwrap_or_default();
    let cells = inner.len().saturating_mul(rest.len());
    if cells > MAX_CELLS {
        return Err(cells);
    }
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    pairs.extend(best(inner, rest).into_iter().map(|(column, call)| (column + start, call + start)));
    let ends = (columns.len() - end..).zip(calls.len() - end..).take(end);
    pairs.extend(ends);
    Ok(pairs)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Pair,
    SkipColumn,
    SkipCall,
}

/// The best pairs, by what is still ahead of each column and call.
fn best(columns: &[(&Call, Column)], calls: &[Call]) -> Vec<(usize, usize)> {
    let width = calls.len();
    let mut ways: Vec<Way> = Vec::with_capacity(columns.len() * width);
    let mut below: Vec<Score> = vec![Score::default(); width + 1];
    for (call, column) in columns.iter().rev() {
        let mut row: Vec<Score> = Vec::with_capacity(width + 1);
        row.push(Score::default());
        // Both are built from the end.
        let mut right = Score::default();
        for (own, (down, across)) in calls.iter().zip(below.iter().zip(below.iter().skip(1))).rev() {
            let pair = (own.kind == call.kind).then(|| {
                let (full, all, like) = *across;
                (full + u32::from(column.is_full()), all + 1, like.saturating_add(likeness(call, own)))
            });
            let choices = [(pair, Way::Pair), (Some(*down), Way::SkipColumn), (Some(right), Way::SkipCall)];
            // The first of equals: a pair that costs nothing comes as early as it can.
            let found = choices.into_iter().filter_map(|(score, way)| Some((score?, way)));
            let (score, way) =
                found.min_by_key(|(score, _)| Reverse(*score)).unwrap_or((Score::default(), Way::SkipCall));
            ways.push(way);
            row.push(score);
            right = score;
        }
        row.reverse();
        below = row;
    }
    ways.reverse();
    let (mut at, mut own) = (0, 0);
    let mut pairs = Vec::new();
    while at < columns.len() && own < width {
        match ways.get(at * width + own) {
            Some(Way::Pair) => {
                pairs.push((at, own));
                at += 1;
                own += 1;
            }
            Some(Way::SkipColumn) => at += 1,
            _ => own += 1,
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A letter for each kind, a digit for what is given: `a1 b2`.
    fn calls(text: &str) -> Vec<Call> {
        let call = |word: &str| {
            let mut bytes = word.bytes();
            let kind = u32::from(bytes.next().unwrap());
            Call { kind, made: vec![], held: bytes.map(u64::from).collect() }
        };
        text.split_whitespace().map(call).collect()
    }

    /// Columns as text: a recording without the call has `-`.
    fn aligned(recordings: &[&str]) -> Vec<String> {
        let words: Vec<Vec<&str>> = recordings.iter().map(|text| text.split_whitespace().collect()).collect();
        let calls: Vec<Vec<Call>> = recordings.iter().map(|text| calls(text)).collect();
        let shown = |column: &Column| {
            let calls = column.calls.iter().zip(&words);
            calls.map(|(call, words)| call.map_or("-", |at| words[at])).collect::<Vec<_>>().join("|")
        };
        align(&calls).unwrap().iter().map(shown).collect()
    }

    /// T15: the rules of the head comment, one row each.
    #[test]
    fn calls_belong_together_by_what_they_are_then_by_how_they_are_made() {
        let rows: [(&[&str], &[&str]); 9] = [
            (&["a b c", "a b c"], &["a|a", "b|b", "c|c"]),
            (&["a b c", "a c"], &["a|a", "b|-", "c|c"]),
            (&["a c", "a b c"], &["a|a", "-|b", "c|c"]),
            (&["a1 a2 a3", "a2 a3"], &["a1|-", "a2|a2", "a3|a3"]),
            (&["a1 a2 a3", "a8 a9"], &["a1|a8", "a2|a9", "a3|-"]),
            // The calls that both others have are kept together, not each with a call of its own.
            (&["a1 a2", "a1", "a2"], &["a1|a1|a2", "a2|-|-"]),
            // What two later recordings have is one column.
            (&["a c", "a b c", "a b c"], &["a|a|a", "-|b|b", "c|c|c"]),
            (&["a b", "b a"], &["a|-", "b|b", "-|a"]),
            (&["a b", "c"], &["a|-", "b|-", "-|c"]),
        ];
        for (recordings, expected) in rows {
            assert_eq!(aligned(recordings), expected, "{recordings:?}");
        }
    }

    /// T15: what would take too long is refused with its size; a long common part doesn't count.
    #[test]
    fn the_number_of_comparisons_is_bounded() {
        let many = |first: &str, count: usize, more: &str| {
            let mut text = vec![first.to_owned()];
            text.extend((0..count).map(|at| format!("a{}", at % 10)));
            text.push(more.to_owned());
            calls(&text.join(" "))
        };
        assert_eq!(align(&[many("b", 4_000, "c"), many("d", 4_000, "e")]), Err((1, 4_002 * 4_002)));
        let long = align(&[many("b", 5_000, "c"), many("b", 5_000, "e")]).unwrap();
        assert_eq!((long.len(), long.iter().filter(|column| column.is_full()).count()), (5_003, 5_001));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// T15: the invariant, and that two recordings are aligned as well as any way could.
        #[test]
        fn every_call_has_one_column_and_keeps_its_place(
            texts in prop::collection::vec(prop::collection::vec("[a-c][0-2]", 0..7), 1..5),
        ) {
            let recordings: Vec<Vec<Call>> = texts.iter().map(|words| calls(&words.join(" "))).collect();
            let columns = align(&recordings).unwrap();
            for (number, own) in recordings.iter().enumerate() {
                let found: Vec<usize> = columns.iter().filter_map(|column| column.calls[number]).collect();
                prop_assert_eq!(found, (0..own.len()).collect::<Vec<_>>());
            }
            for column in &columns {
                let kinds: std::collections::BTreeSet<u32> = column.calls.iter().zip(&recordings)
                    .filter_map(|(at, own)| Some(own[(*at)?].kind)).collect();
                prop_assert_eq!(kinds.len(), 1);
            }
            if let [one, two] = recordings.as_slice() {
                let full = columns.iter().filter(|column| column.is_full()).count();
                prop_assert_eq!(full, longest(one, two));
            }
        }
    }

    /// The textbook's length of the longest common subsequence.
    fn longest(one: &[Call], two: &[Call]) -> usize {
        match (one, two) {
            ([a, one_rest @ ..], [b, two_rest @ ..]) if a.kind == b.kind => 1 + longest(one_rest, two_rest),
            ([_, one_rest @ ..], [_, two_rest @ ..]) => longest(one_rest, two).max(longest(one, two_rest)),
            _ => 0,
        }
    }
}
