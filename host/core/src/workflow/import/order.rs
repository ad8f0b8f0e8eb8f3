//! The order of an imported workflow.
//!
//! Owns the waits that the file leaves out: Trace2MCP lets a read run beside a write that came before it.
//! Refuses parallelism between a call that may change something and any other that isn't pure.
//!
//! **Invariant:** a wait leads from a node to one before it, so there is no circle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::effect::Effect;
use crate::id::NodeId;
use crate::workflow::expr::Source;
use crate::workflow::model::{Node, Wait, Workflow};

/// Puts the nodes in an order that they can run in, that of the file where it is one, adds what they have to
/// wait for, and says how many waits that were.
pub(super) fn keep(workflow: &mut Workflow, dependencies: &[Vec<usize>]) -> usize {
    let ids: Vec<NodeId> = workflow.nodes.iter().map(|node| node.id.clone()).collect();
    let mut slots: Vec<Option<Node>> = workflow.nodes.drain(..).map(Some).collect();
    let (mut barrier, mut open, mut added) = (None, Vec::new(), 0);
    for position in runnable(dependencies) {
        let Some(mut node) = slots.get_mut(position).and_then(Option::take) else {
            continue;
        };
        // The file declares what a value comes from as well, which the reference says already.
        let sources: BTreeSet<NodeId> = sources(&node).cloned().collect();
        node.after.retain(|id| !sources.contains(id));
        let mut waits: BTreeMap<NodeId, Wait> =
            node.after.iter().map(|id| (id.clone(), Wait::Declared)).collect();
        if node.effect != Effect::Pure {
            let before: &[usize] = dependencies.get(position).map(Vec::as_slice).unwrap_or_default();
            let reads = node.effect.is_read_only();
            let wanted: Vec<usize> =
                if reads || open.is_empty() { barrier.into_iter().collect() } else { open.clone() };
            let missing = wanted.iter().filter(|other| before.binary_search(other).is_err());
            for other in missing.filter_map(|other| ids.get(*other)) {
                node.after.push(other.clone());
                waits.insert(other.clone(), Wait::Barrier);
                added += 1;
            }
            if reads {
                open.push(position);
            } else {
                barrier = Some(position);
                open.clear();
            }
        }
        if !waits.is_empty() {
            workflow.source.order.insert(node.id.clone(), waits);
        }
        workflow.nodes.push(node);
    }
    added
}

/// The nodes that values of a node's arguments come from.
fn sources(node: &Node) -> impl Iterator<Item = &NodeId> {
    node.arguments.references().into_iter().filter_map(|reference| match &reference.source {
        Source::Node(id) => Some(id),
        Source::Input(_) => None,
    })
}

/// Positions so that each comes after those it depends on, the first of the file first.
fn runnable(dependencies: &[Vec<usize>]) -> Vec<usize> {
    let mut waiting: Vec<usize> = dependencies.iter().map(Vec::len).collect();
    let mut followers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, before) in dependencies.iter().enumerate() {
        before.iter().for_each(|before| followers.entry(*before).or_default().push(node));
    }
    let free = waiting.iter().enumerate().filter(|(_, waits)| **waits == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = free.map(|(node, _)| Reverse(node)).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for follower in followers.get(&node).into_iter().flatten() {
            if let Some(waits) = waiting.get_mut(*follower) {
                *waits -= 1;
                if *waits == 0 {
                    ready.push(Reverse(*follower));
                }
            }
        }
    }
    order
}

/// What a person should know of added waits.
pub(super) fn warning(added: usize) -> Option<String> {
    (added > 0).then(|| {
        format!(
            "{added} waits were added, so that no call runs beside an earlier one that may change something"
        )
    })
}
