//! A workflow as a picture that needs no other program.
//!
//! Owns a layered layout and its SVG. Refuses scripts, outside fonts and anything that is fetched. The
//! layers are those of the verified workflow; a general layout library would compute them anew and draw no
//! labels.
//!
//! **Invariant:** everything that comes from the workflow is escaped, every edge leads down, and no two boxes
//! overlap.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::graph::{edges, label};
use super::model::Node;
use super::verify::VerifiedWorkflow;
use crate::effect::Effect;

/// Most nodes that are drawn: more than anybody could look at.
pub const MAX_DRAWN: usize = 2000;

const BOX: (f64, f64) = (190.0, 44.0);
const GAP: (f64, f64) = (28.0, 52.0);
const MARGIN: f64 = 24.0;
/// Width that an edge takes where it passes a row.
const LANE: f64 = 2.0;
/// Boxes in one row. A wider layer takes several rows, since a page is read downwards.
const ROW: usize = 8;
/// An edge over more rows than this is drawn straight: a lane in each row would take more room than it helps.
const LONG: usize = 40;
/// Rounds of ordering, and of straightening.
const ROUNDS: usize = 8;
/// Characters of a line in a box.
const TEXT: usize = 25;

/// The workflow as SVG, or nothing if it has more than [`MAX_DRAWN`] nodes.
pub fn svg(verified: &VerifiedWorkflow) -> Option<String> {
    let nodes = &verified.workflow().nodes;
    if nodes.len() > MAX_DRAWN {
        return None;
    }
    let layout = Layout::of(verified);
    Some(layout.draw(verified))
}

/// A box or the lane of a passing edge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Node(usize),
    Lane,
}

/// Where everything is.
struct Layout {
    slots: Vec<Slot>,
    /// The slots of each row, from left to right.
    rows: Vec<Vec<usize>>,
    /// Left edge of each slot.
    x: Vec<f64>,
    /// Links between slots of neighbouring rows, upwards and downwards.
    up: Vec<Vec<usize>>,
    down: Vec<Vec<usize>>,
    /// For each edge the slots it passes, ends included.
    ways: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Layout {
    fn of(verified: &VerifiedWorkflow) -> Layout {
        let count = verified.workflow().nodes.len();
        let mut layout = Layout {
            slots: (0..count).map(Slot::Node).collect(),
            rows: Vec::new(),
            x: vec![0.0; count],
            up: vec![Vec::new(); count],
            down: vec![Vec::new(); count],
            ways: BTreeMap::new(),
        };
        let mut row_of = vec![0; count];
        for layer in verified.layers() {
            let layer = layout.by_sources(layer, verified, &row_of);
            for row in layer.chunks(ROW) {
                for node in row {
                    if let Some(slot) = row_of.get_mut(*node) {
                        *slot = layout.rows.len();
                    }
                }
                layout.rows.push(row.to_vec());
            }
        }
        for (from, to) in edges(verified.workflow()).into_keys() {
            layout.lead(from, to, &row_of);
        }
        for round in 0..ROUNDS {
            layout.sort(round % 2 == 0);
        }
        layout.place();
        layout
    }

    /// A wide layer's nodes beside those they come from, so that its rows aren't mixed.
    fn by_sources(&self, layer: &[usize], verified: &VerifiedWorkflow, row_of: &[usize]) -> Vec<usize> {
        let mut layer = layer.to_vec();
        if layer.len() > ROW {
            let place = |node: &usize| {
                let sources = verified.dependencies().get(*node).into_iter().flatten();
                sources.map(|source| (row_of.get(*source).copied().unwrap_or_default(), *source)).max()
            };
            layer.sort_by_key(|node| (place(node), *node));
        }
        layer
    }

    /// Leads an edge through the rows between its ends.
    fn lead(&mut self, from: usize, to: usize, row_of: &[usize]) {
        let (Some(first), Some(last)) = (row_of.get(from).copied(), row_of.get(to).copied()) else { return };
        let mut way = vec![from];
        let mut here = from;
        if last.saturating_sub(first) <= LONG {
            for row in first + 1..last {
                let lane = self.slots.len();
                self.slots.push(Slot::Lane);
                self.x.push(0.0);
                self.up.push(Vec::new());
                self.down.push(Vec::new());
                if let Some(row) = self.rows.get_mut(row) {
                    row.push(lane);
                }
                self.link(here, lane);
                way.push(lane);
                here = lane;
            }
            self.link(here, to);
        }
        way.push(to);
        self.ways.insert((from, to), way);
    }

    fn link(&mut self, above: usize, below: usize) {
        if let Some(list) = self.down.get_mut(above) {
            list.push(below);
        }
        if let Some(list) = self.up.get_mut(below) {
            list.push(above);
        }
    }

    /// Sorts each row by the mean place of its neighbours in the row above, or below.
    fn sort(&mut self, downwards: bool) {
        let count = self.rows.len();
        let mut place = vec![0.0; self.slots.len()];
        let order: Vec<usize> = if downwards { (0..count).collect() } else { (0..count).rev().collect() };
        for at in order {
            let links = if downwards { &self.up } else { &self.down };
            let Some(row) = self.rows.get_mut(at) else { continue };
            let mut keyed: Vec<(f64, usize)> = row
                .iter()
                .enumerate()
                .map(|(index, slot)| {
                    let near = links.get(*slot).map(Vec::as_slice).unwrap_or_default();
                    let here = (index as f64 + 0.5) / row.len().max(1) as f64;
                    (mean(near.iter().filter_map(|slot| place.get(*slot).copied())).unwrap_or(here), *slot)
                })
                .collect();
            // A stable sort: what nothing tells apart keeps its recorded order.
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            let length = keyed.len().max(1) as f64;
            for (index, (_, slot)) in keyed.iter().enumerate() {
                if let Some(place) = place.get_mut(*slot) {
                    *place = (index as f64 + 0.5) / length;
                }
            }
            *row = keyed.into_iter().map(|(_, slot)| slot).collect();
        }
    }

    fn width(&self, slot: usize) -> f64 {
        if matches!(self.slots.get(slot), Some(Slot::Node(_))) { BOX.0 } else { LANE }
    }

    fn centre(&self, slot: usize) -> f64 {
        self.x.get(slot).copied().unwrap_or_default() + self.width(slot) / 2.0
    }

    /// Moves each row's slots as near to their neighbours as their order and widths allow.
    fn place(&mut self) {
        let count = self.rows.len();
        for at in 0..count {
            self.settle(at, |_, _| None);
        }
        for round in 0..ROUNDS {
            let downwards = round % 2 == 0;
            let order: Vec<usize> = if downwards { (0..count).collect() } else { (0..count).rev().collect() };
            for at in order {
                self.settle(at, |layout, slot| {
                    let links = if downwards { &layout.up } else { &layout.down };
                    let near = links.get(slot).map(Vec::as_slice).unwrap_or_default();
                    mean(near.iter().map(|slot| layout.centre(*slot)))
                });
            }
        }
        let left = self.x.iter().copied().fold(f64::INFINITY, f64::min);
        let shift = if left.is_finite() { MARGIN - left } else { 0.0 };
        self.x.iter_mut().for_each(|x| *x += shift);
    }

    /// Places one row: each slot at its wish or where it is, once pushed right and once pushed left until
    /// nothing overlaps, and half-way between the two.
    fn settle(&mut self, at: usize, wish: impl Fn(&Layout, usize) -> Option<f64>) {
        let Some(row) = self.rows.get(at).cloned() else { return };
        let wished =
            |slot: usize| wish(self, slot).unwrap_or_else(|| self.centre(slot)) - self.width(slot) / 2.0;
        let mut placed = Vec::with_capacity(row.len());
        let mut free = f64::NEG_INFINITY;
        for slot in &row {
            let x = wished(*slot).max(free);
            placed.push(x);
            free = x + self.width(*slot) + GAP.0;
        }
        let mut free = f64::INFINITY;
        for (slot, x) in row.iter().zip(&mut placed).rev() {
            let left = wished(*slot).min(free - self.width(*slot));
            free = left - GAP.0;
            *x = f64::midpoint(*x, left);
        }
        for (slot, x) in row.iter().zip(placed) {
            if let Some(place) = self.x.get_mut(*slot) {
                *place = x;
            }
        }
    }

    fn draw(&self, verified: &VerifiedWorkflow) -> String {
        let workflow = verified.workflow();
        let row_of: BTreeMap<usize, usize> = self
            .rows
            .iter()
            .enumerate()
            .flat_map(|(row, slots)| slots.iter().map(move |slot| (*slot, row)))
            .collect();
        let top = MARGIN + HEAD;
        let y = |slot: usize| {
            let row = row_of.get(&slot).copied().unwrap_or_default();
            top + row as f64 * (BOX.1 + GAP.1)
        };
        let right = (0..self.slots.len())
            .map(|slot| self.x.get(slot).copied().unwrap_or_default() + self.width(slot));
        let width = right.fold(LEGEND, f64::max) + MARGIN;
        let height = top + self.rows.len() as f64 * (BOX.1 + GAP.1) - GAP.1 + MARGIN;
        let mut out = head(width, height, &workflow.name);
        for ((from, to), pointers) in edges(workflow) {
            let Some(way) = self.ways.get(&(from, to)) else { continue };
            let points: Vec<(f64, f64, f64)> =
                way.iter().map(|slot| (self.centre(*slot), y(*slot), y(*slot) + BOX.1)).collect();
            let name = |at: usize| workflow.nodes.get(at).map_or("", |node| node.id.as_str());
            let (class, title) = match label(&pointers) {
                Some(_) => {
                    let all: Vec<&str> = pointers.iter().map(String::as_str).collect();
                    ("data", format!("{} -> {} at {}", name(from), name(to), all.join(", ")))
                }
                None => ("order", format!("{} waits for {}", name(to), name(from))),
            };
            let _ = writeln!(
                out,
                "<path class=\"{class}\" marker-end=\"url(#{class}-end)\" d=\"{}\"><title>{}</title></path>",
                curve(&points),
                escape(&title)
            );
        }
        for (index, node) in workflow.nodes.iter().enumerate() {
            let x = self.x.get(index).copied().unwrap_or_default();
            draw_node(node, x, y(index), &mut out);
        }
        out.push_str("</svg>\n");
        out
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// A line from the bottom of the first point to the top of the last, straight down through the others.
fn curve(points: &[(f64, f64, f64)]) -> String {
    let mut path = String::new();
    for (one, two) in points.iter().zip(points.iter().skip(1)) {
        let ((x, _, bottom), (to_x, to_y, _)) = (*one, *two);
        let middle = (bottom + to_y) / 2.0;
        let _ = if path.is_empty() {
            write!(path, "M{x:.1} {bottom:.1}")
        } else {
            write!(path, "L{x:.1} {bottom:.1}")
        };
        let _ = write!(path, "C{x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}");
    }
    path
}

/// Each look: class, fill, border, its width and dashes, and the effects it stands for.
const LOOKS: [(&str, &str, &str, &str, &str); 3] = [
    ("read", "#e6f4ea", "#1e7a3c", "1", "pure, read"),
    ("write", "#fff0d6", "#9a5b00", "2.5", "write, external_side_effect"),
    ("danger", "#fde3e3", "#b3141b", "2.5", "delete, unknown"),
];

/// Height of the legend, and its width.
const HEAD: f64 = 48.0;
const LEGEND: f64 = 760.0;

fn head(width: f64, height: f64, name: &str) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>{}</title>\n<style>\n\
         .data{{fill:none;stroke:#33475b;stroke-width:1.5}}\n\
         .order{{fill:none;stroke:#7a7a7a;stroke-width:1.2;stroke-dasharray:5 4}}\n\
         .tool{{font-weight:600;fill:#111}}\n.id{{fill:#444;font-size:11px}}\n",
        escape(name)
    );
    for (class, fill, border, stroke, _) in LOOKS {
        let dashes = if class == "danger" { ";stroke-dasharray:7 3" } else { "" };
        let _ = writeln!(out, ".{class}{{fill:{fill};stroke:{border};stroke-width:{stroke}{dashes}}}");
    }
    out.push_str("</style>\n<defs>\n");
    for (id, fill) in [("data", "#33475b"), ("order", "#ffffff")] {
        let border = if id == "data" { fill } else { "#7a7a7a" };
        let _ = writeln!(
            out,
            "<marker id=\"{id}-end\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M1 1L9 5L1 9z\" fill=\"{fill}\" stroke=\"{border}\"/></marker>"
        );
    }
    out.push_str(
        "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<g aria-label=\"legend\">\n",
    );
    let mut x = MARGIN;
    for (class, _, _, _, effects) in LOOKS {
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{MARGIN}\" width=\"22\" height=\"14\" rx=\"3\"/>\
             <text x=\"{}\" y=\"{}\">{effects}</text>",
            x + 28.0,
            MARGIN + 11.0
        );
        x += 44.0 + effects.len() as f64 * 6.4;
    }
    for (class, text) in [("data", "a value flows"), ("order", "order only")] {
        let y = MARGIN + 7.0;
        let _ = writeln!(
            out,
            "<path class=\"{class}\" marker-end=\"url(#{class}-end)\" d=\"M{x:.1} {y}L{:.1} {y}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{text}</text>",
            x + 34.0,
            x + 40.0,
            MARGIN + 11.0
        );
        x += 56.0 + text.len() as f64 * 6.4;
    }
    out.push_str("</g>\n");
    out
}

fn draw_node(node: &Node, x: f64, y: f64, out: &mut String) {
    let class = match node.effect {
        Effect::Pure | Effect::Read => "read",
        Effect::Write | Effect::ExternalSideEffect => "write",
        Effect::Delete | Effect::Unknown => "danger",
    };
    let effect = node.effect.as_str();
    let (middle, width, height) = (x + BOX.0 / 2.0, BOX.0, BOX.1);
    let id = shorten(node.id.as_str(), TEXT.saturating_sub(effect.len()).max(6) + 3);
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\
         <text class=\"tool\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"id\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} · {effect}</text></g>",
        escape(&format!("{} calls {} ({effect})", node.id, node.tool)),
        y + 18.0,
        escape(&shorten(node.tool.as_str(), TEXT)),
        y + 34.0,
        escape(&id),
    );
}

/// The start of a text that fits so many narrow characters; wide ones count twice.
fn shorten(text: &str, most: usize) -> String {
    let wide =
        |c: char| if matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xffdc | 0x1f000..) { 2 } else { 1 };
    if text.chars().map(wide).sum::<usize>() <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let start = text.chars().take_while(|c| {
        let fits = room >= wide(*c);
        room = room.saturating_sub(wide(*c));
        fits
    });
    format!("{}…", start.collect::<String>())
}

/// Text for XML. What XML has no form for becomes the replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::compiler::{Claims, Options, compile};
    use crate::trace::from_value;
    use crate::workflow::verify;

    fn verified(events: Vec<Value>) -> VerifiedWorkflow {
        let trace = from_value(&json!({"inputs": {}, "events": events})).unwrap();
        verify(
            compile(trace, &Options { claims: Claims::Believe, ..Options::default() }).unwrap().workflow,
            None,
        )
        .unwrap()
    }

    /// T29: edges of data and of order look different, effects are told apart without colour, and no name
    /// can end its text.
    #[test]
    fn the_picture_escapes_names_and_tells_edges_and_effects_apart() {
        let picture = svg(&verified(vec![
            json!({"id": "a</title><script>", "tool": "find", "arguments": {}, "side_effect": "read", "result": {"id": "h-77810"}}),
            json!({"id": "b\u{1}&'", "tool": "book", "arguments": {"hotel_id": "h-77810"}, "side_effect": "write"}),
            json!({"id": "c", "tool": "list", "arguments": {}, "side_effect": "read"}),
        ]))
        .unwrap();
        for expected in [
            "<title>a&lt;/title&gt;&lt;script&gt; calls find (read)</title>",
            "b\u{fffd}&amp;&#39; at /hotel_id</title>",
            "<path class=\"order\"",
            "class=\"write\"",
            " · read</text>",
            "stroke-dasharray:7 3",
        ] {
            assert!(picture.contains(expected), "{expected}\n{picture}");
        }
        for refused in ["<script", "http://", "url(h", "href", "@import", "\u{1}"] {
            assert!(!picture.replace("http://www.w3.org/2000/svg", "").contains(refused), "{refused}");
        }
    }

    #[test]
    fn more_nodes_than_anybody_looks_at_are_not_drawn() {
        let event = |index: usize| json!({"id": format!("e{index}"), "tool": "t", "arguments": {}, "result": 1, "side_effect": "read"});
        assert!(svg(&verified((0..MAX_DRAWN + 1).map(event).collect())).is_none());
        assert_eq!(shorten("訪問先の住所を調べる", 9), "訪問先の…");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// T29: boxes never overlap and every edge leads down.
        #[test]
        fn boxes_never_overlap_and_edges_lead_down(
            links in prop::collection::vec(prop::collection::vec(0usize..60, 0..4), 1..60),
        ) {
            let events = links.iter().enumerate().map(|(index, links)| {
                let needs: BTreeSet<String> = links.iter().filter(|from| **from < index).map(|from| format!("e{from}")).collect();
                json!({"id": format!("e{index}"), "tool": "t", "arguments": {}, "result": index,
                       "side_effect": "read", "dependencies": needs})
            });
            let verified = verified(events.collect());
            let layout = Layout::of(&verified);
            for row in &layout.rows {
                for (one, two) in row.iter().zip(row.iter().skip(1)) {
                    prop_assert!(layout.x[*one] + layout.width(*one) < layout.x[*two]);
                }
            }
            let row = |slot: usize| layout.rows.iter().position(|row| row.contains(&slot)).unwrap();
            for way in layout.ways.values() {
                prop_assert!(way.iter().zip(way.iter().skip(1)).all(|(one, two)| row(*one) < row(*two)));
            }
            prop_assert_eq!(layout.ways.len(), verified.dependencies().iter().map(Vec::len).sum::<usize>());
        }
    }
}
