//! From a recorded session to a workflow.
//!
//! Owns the decisions: which events become nodes, where each argument comes from, which order has to be
//! kept. Refuses to run anything and to trust a recording: what it claims of an effect can only make a call
//! look worse, unless a person decided to believe it, and the contract decides at run time.
//!
//! **Invariant:** resolving the compiled arguments against the recorded inputs and results gives the
//! recorded arguments; a workflow for which this doesn't hold is never returned.

mod align;
mod asked;
mod choice;
mod dedup;
mod facts;
mod formula;
mod hash;
mod index;
mod infer;
mod keys;
mod lower;
mod names;
mod observed;
mod offered;
mod order;
mod own;
mod repeat;
mod score;
mod secrets;
mod several;
mod tell;
mod vary;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::catalog::{Catalog, Known};
use crate::code::Code;
use crate::digest::Digest;
use crate::document::Report;
use crate::effect::{Effect, Idempotency};
use crate::id::{NodeId, ToolName, allowed_tool_name};
use crate::problem::{Problem, Problems, item, lookup};
use crate::trace::{self, Event, GAPS, Trace};
use crate::workflow::{
    Decision, Dropped, EffectBasis, EffectSource, Expr, Node, Provenance, Reference, Source, Verdict, Wait,
    Workflow,
};

use asked::Asked;
use facts::Facts;
pub(crate) use hash::same;

/// What a loaded plugin or a reviewed contract states of a tool. Trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFacts {
    /// What it may do outside.
    pub effect: Effect,
    /// Whether it may be repeated.
    pub idempotency: Idempotency,
    /// Keys of what it reads; `{name}` stands for an argument.
    pub reads: Vec<String>,
    /// Keys of what it changes, in the same form.
    pub writes: Vec<String>,
}

/// What a person decided of one argument value, against what the compiler would do: a suggestion of its, any
/// other place that holds the recorded value, or none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Accept {
    /// The event.
    pub event: String,
    /// JSON Pointer into its arguments.
    pub pointer: String,
    /// The reference or template to take, as reports write it; the first suggestion if none is named, and the
    /// recorded value itself if the text is empty.
    pub reference: Option<String>,
}

/// What the effects and keys count that a recording states of its own calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claims {
    /// They can make a call look worse than it is known to be. Without anything known it stays unknown.
    #[default]
    Raise,
    /// They are believed where nothing else is known: a person trusts the recorder.
    Believe,
}

/// How to compile.
#[derive(Debug, Clone)]
pub struct Options {
    /// The workflow's name; the trace's name if none is given.
    pub name: Option<String>,
    /// Facts of known tools, which win over catalogues and the trace's claims.
    pub known_tools: BTreeMap<ToolName, ToolFacts>,
    /// What else is known of tools; the first catalogue that knows a call decides.
    pub catalogs: Vec<Catalog>,
    /// What the trace's claims count.
    pub claims: Claims,
    /// Program and version, for the provenance.
    pub compiler: String,
    /// Suggestions that a person accepted.
    pub accept: Vec<Accept>,
    /// Bind items of lists other than the first too. The recorded session chose them for a reason that
    /// the recording doesn't hold, so this is off.
    pub bind_list_choices: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: None,
            known_tools: BTreeMap::new(),
            catalogs: Vec::new(),
            claims: Claims::default(),
            compiler: concat!("t2m-host ", env!("CARGO_PKG_VERSION")).to_owned(),
            accept: Vec::new(),
            bind_list_choices: false,
        }
    }
}

/// What compiling made.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The workflow.
    pub workflow: Workflow,
    /// What was decided, in numbers.
    pub report: CompileReport,
    /// For each node how sure each of its decisions is, from 0 to 1. Only its order means something: the
    /// benchmark draws a curve over it.
    pub confidence: Vec<Vec<f64>>,
}

/// What was decided, in numbers, and what needs a person's eye.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CompileReport {
    /// Events of the trace.
    pub events: usize,
    /// Nodes of the workflow.
    pub nodes: usize,
    /// Events that failed, had no answer or were made by another call.
    pub left_out: usize,
    /// Repeated reads.
    pub deduplicated: usize,
    /// Argument values bound to an earlier result.
    pub references: usize,
    /// Argument values bound to an input.
    pub inputs: usize,
    /// Argument values for which several sources fit.
    pub ambiguous: usize,
    /// Order edges beyond data flow.
    pub order_edges: usize,
    /// Values left literal although a source was seen.
    pub suggestions: Vec<Suggestion>,
    /// What a person should know; lower case, no final period.
    pub notes: Vec<String>,
    /// What became of the calls of each of several recordings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<RecordingReport>,
}

/// What became of the calls of one of several recordings, by the ids of its events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RecordingReport {
    /// The recording, counted from 1.
    pub recording: usize,
    /// Its events.
    pub events: usize,
    /// Calls that every recording has.
    pub common: usize,
    /// Calls that other recordings don't have and no list explains. They are no nodes.
    pub optional: Vec<String>,
    /// Calls of a repeated call that other recordings make less often. They are no nodes.
    pub repeated: Vec<String>,
    /// Calls that only repeat an earlier one.
    pub repeats: Vec<String>,
    /// Events that failed, had no answer or were made by another call.
    pub left_out: usize,
}

impl CompileReport {
    /// Whether a recording has calls that the workflow doesn't make, since others don't have them.
    pub fn is_partial(&self) -> bool {
        self.recordings
            .iter()
            .any(|recording| !recording.optional.is_empty() || !recording.repeated.is_empty())
    }
}

/// A value left literal although a source was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// The event.
    pub event: String,
    /// JSON Pointer into its arguments.
    pub pointer: String,
    /// The sources seen, the best first.
    pub candidates: Vec<String>,
    /// The first candidate gives exactly this value, so that [`Options::accept`] can take it. A value that
    /// is only a part of a longer result can't be taken.
    pub acceptable: bool,
    /// Why none was taken.
    pub reason: String,
}

/// An event that becomes a node.
struct Kept<'t> {
    /// Position in the trace.
    position: usize,
    event: &'t Event,
    tool: ToolName,
    facts: Facts,
    /// Where its effect came from.
    source: EffectSource,
    reason: String,
}

/// Compiles a trace. It takes the trace, since what was recorded moves into the workflow.
pub fn compile(trace: Trace, options: &Options) -> Result<Compiled, Problems> {
    compile_all(vec![trace], options)
}

/// Compiles recordings of one task. The calls that all of them have, in one order, are the nodes; the first
/// recording gives the ids and what was recorded. A reference has to hold in each; a literal that differs becomes
/// an input. Other calls are suggestions in the workflow's provenance, and are refused if the nodes need them.
pub fn compile_all(traces: Vec<Trace>, options: &Options) -> Result<Compiled, Problems> {
    let mut digests: Vec<Digest> = traces.iter().skip(1).map(trace::digest).collect();
    let several::Aligned { first: trace, mut others, columns } = several::align(traces, options)?;
    let mut inputs = trace.inputs.clone();
    let count = trace.events.len();
    let (asked, selected) =
        join(count, || Asked::of(&trace.events), || select(&trace, options, &others, false));
    let selected = selected?;
    let (digest, front) =
        join(count, || trace::digest(&trace), || trusted_front(&trace, options, &others, &asked, selected));
    digests.insert(0, digest);
    let Front { selected, mut inferred, keyed, secrets } = front?;
    let Selected { kept, mut dropped, declared, .. } = selected;
    if !others.is_empty() {
        let mut opened = several::Inputs::new(&mut inputs, &mut others);
        for (node, kept) in inferred.iter_mut().zip(&kept) {
            node.open(&mut opened, &kept.event.arguments, kept.position);
        }
    }
    keys::flag(keyed, &kept, &others, &mut inferred, &|name| trace.inputs.contains_key(name));
    let varying = match &columns {
        Some(columns) => {
            let view = vary::View { first: &trace, inputs: &inputs, others: &others, columns, kept: &kept };
            view.refuse(&inferred)?;
            view.suggest(&dropped)
        }
        None => vary::Varying::default(),
    };
    let data: Vec<Vec<u32>> = inferred.iter().map(|node| node.sources.clone()).collect();
    let wanted: Vec<order::Waits> = declared
        .into_iter()
        .zip(&inferred)
        .map(|(declared, node)| {
            let declared = declared.into_iter().map(|node| (node, Wait::Declared));
            node.also_after.iter().map(|node| (*node, Wait::Value)).chain(declared).collect()
        })
        .collect();
    let after = order::order(&kept, &data, &wanted);
    let output = lower::output(&kept, &data, &after);
    dropped.sort_by_key(|(position, _)| *position);
    let effects: BTreeSet<EffectBasis> = kept.iter().map(basis).collect();
    let positions: Vec<usize> = kept.iter().map(|kept| kept.position).collect();
    let confidence = inferred.iter_mut().map(|node| std::mem::take(&mut node.confidence)).collect();
    let nodes = kept.iter().zip(inferred).zip(&after);
    let nodes = nodes.map(|((node, inferred), after)| lower_node(node, inferred, after, &kept)).collect();
    let mut workflow = Workflow {
        name: options.name.clone().or_else(|| trace.name.clone()).unwrap_or_else(|| "workflow".to_owned()),
        inputs: lower::inputs(&inputs, &others).into_iter().chain(secrets.inputs).collect(),
        nodes,
        output,
        source: Provenance {
            compiler: options.compiler.clone(),
            traces: digests,
            dropped: dropped.into_iter().map(|(_, dropped)| dropped).chain(varying.dropped).collect(),
            order: order_reasons(&kept, &after),
            effects: effects.into_iter().collect(),
            imported: None,
            optional: varying.optional,
            repeated: varying.repeated,
        },
    };
    inputs.extend(secrets.recorded.clone());
    for other in &mut others {
        other.inputs.extend(secrets.recorded.clone());
    }
    let gaps = trace.metadata.get(GAPS).and_then(Value::as_array).map(|gaps| {
        let first = gaps.first().and_then(Value::as_str).unwrap_or_default();
        format!("calls may be missing from the recording, and then from the workflow too ({first}); no repeated read is dropped")
    });
    lower::recorded(&mut workflow.nodes, &positions, trace.events);
    let results = lower::results(&workflow);
    let (checked, mut report) = join(
        count,
        || lower::self_check(&inputs, &positions, &workflow, &results),
        || summarise(&inputs, count, &workflow, &results, &after),
    );
    checked?;
    lower::check_others(&others, &positions, &workflow)?;
    report.recordings = varying.recordings;
    report.notes.extend(varying.notes);
    report.notes.extend(gaps);
    Ok(Compiled { workflow, report, confidence })
}

/// Events from which on a second thread is worth its start.
const MANY_EVENTS: usize = 1000;

/// Does two things, at the same time if there are many events.
fn join<A: Send, B: Send>(
    events: usize,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    if events < MANY_EVENTS { (first(), second()) } else { rayon::join(first, second) }
}

/// The events that become nodes.
struct Selected<'t> {
    kept: Vec<Kept<'t>>,
    /// The others, by position.
    dropped: Vec<(usize, Dropped)>,
    /// For each id of a kept or repeated event the node that stands for it.
    alias: HashMap<&'t str, u32>,
    /// The nodes that each one declares to need.
    declared: Vec<Vec<u32>>,
    /// Whether dropping repeats relied on keys.
    relied_on_keys: bool,
}

/// What is known before nodes are put in order.
struct Front<'t> {
    selected: Selected<'t>,
    inferred: Vec<infer::Inferred>,
    keyed: Vec<keys::Keyed>,
    secrets: secrets::Secrets,
}

/// What is known before nodes are put in order, without keys that follow from what another run may have otherwise.
fn trusted_front<'t>(
    trace: &'t Trace,
    options: &Options,
    others: &[several::Other],
    asked: &Asked,
    selected: Selected<'t>,
) -> Result<Front<'t>, Problems> {
    let mut front = self::front(trace, options, others, asked, selected)?;
    if forget_varying_keys(&mut front) && front.selected.relied_on_keys {
        // Reads were dropped across writes that another run may turn against them.
        let selected = select(trace, options, others, true)?;
        front = self::front(trace, options, others, asked, selected)?;
        forget_varying_keys(&mut front);
    }
    Ok(front)
}

fn front<'t>(
    trace: &'t Trace,
    options: &Options,
    others: &[several::Other],
    asked: &Asked,
    selected: Selected<'t>,
) -> Result<Front<'t>, Problems> {
    let Selected { kept, declared, .. } = &selected;
    if kept.is_empty() {
        let message = match trace.events.len() {
            0 => "the trace has no events".to_owned(),
            count => format!("none of the {count} events succeeded"),
        };
        return Err(Problem::at(Code::TraceEmpty, "/events", message).into());
    }
    let (mut inferred, keyed) = infer::infer(trace, others, kept, declared, asked, options)?;
    let secrets = secrets::bind(&trace.inputs, &mut inferred);
    Ok(Front { selected, inferred, keyed, secrets })
}

/// Selects the events that become nodes. Without trust in keys, a read isn't dropped across a write that names
/// other keys.
fn select<'t>(
    trace: &'t Trace,
    options: &Options,
    others: &[several::Other],
    distrust_keys: bool,
) -> Result<Selected<'t>, Problems> {
    let report = Report::default();
    let mut kept: Vec<Kept<'t>> = Vec::new();
    let mut dropped = Vec::new();
    let mut misnamed: BTreeSet<&str> = BTreeSet::new();
    let mut alias: HashMap<&str, u32> = HashMap::with_capacity(trace.events.len());
    let has_gaps = trace.metadata.contains_key(GAPS);
    let mut repeats = dedup::Repeats::new(distrust_keys);
    let ids: HashMap<&str, usize> =
        trace.events.iter().enumerate().map(|(at, event)| (event.id.as_str(), at)).collect();
    for (position, event) in trace.events.iter().enumerate() {
        let mut known = known(trace, event, options);
        if known.source != EffectSource::Plugin {
            others.iter().for_each(|other| other.raise(position, &mut known));
        }
        let Known { facts, source, reason } = known;
        let claimed = source == EffectSource::Recording
            && (facts.effect, facts.idempotency) == (event.effect, event.idempotency);
        let facts = Facts::of(event, Some(&facts).filter(|_| !claimed));
        // A failed call may have acted before it failed.
        repeats.note_writer(position, &facts);
        if let Some(reason) = not_a_node(event, trace, &ids) {
            dropped.push((position, drop_event(event, reason, None)));
            continue;
        }
        let tool = match ToolName::new(event.tool.as_str()) {
            Ok(tool) => tool,
            Err(error) => {
                // Once for each name: one rename settles all calls of it.
                if misnamed.insert(event.tool.as_str()) {
                    let is_taken = |name: &str| trace.events.iter().any(|event| event.tool == name);
                    let (shown, allowed) =
                        (event.tool.escape_debug(), allowed_tool_name(&event.tool, is_taken));
                    let at = format!("{}/tool", item("/events", position));
                    let message = format!("{error}; `--rename '{shown}={allowed}'` settles it");
                    report.add(Code::FieldValue, at, message);
                }
                continue;
            }
        };
        // What is the same call in one recording only by chance differs in another.
        let missing: Vec<usize> =
            (1..).zip(others).filter(|(_, other)| !other.has(position)).map(|(number, _)| number).collect();
        let everywhere = |first: u32| {
            !missing.is_empty()
                || kept.get(first as usize).is_some_and(|kept| {
                    let (first, again) = ((kept.position, &kept.event.id), (position, &event.id));
                    others.iter().all(|other| other.repeats(first, again))
                })
        };
        // Between two equal reads a call may be missing that changed what they read.
        let same = repeats.same_as(position, event, &facts, &ids).filter(|_| !has_gaps);
        if let Some(first) = same.filter(|first| everywhere(*first)) {
            let id = kept.get(first as usize).map(|kept| kept.event.id.clone());
            dropped.push((position, drop_event(event, dedup::REASON.to_owned(), id)));
            alias.insert(event.id.as_str(), first);
            continue;
        }
        if !missing.is_empty() {
            dropped.push((position, drop_event(event, several::not_everywhere(&missing), None)));
            continue;
        }
        let index = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        repeats.keep(position, event, &facts, index);
        alias.insert(event.id.as_str(), index);
        kept.push(Kept { position, event, tool, facts, source, reason });
    }
    report.finish(Some(()))?;
    let declared = declare(&kept, &alias)?;
    Ok(Selected { kept, dropped, alias, declared, relied_on_keys: repeats.relied_on_keys })
}

/// The nodes that each node's recording declares to need.
fn declare(kept: &[Kept<'_>], alias: &HashMap<&str, u32>) -> Result<Vec<Vec<u32>>, Problems> {
    let report = Report::default();
    let declared = order::declared(kept, alias, &report);
    report.finish(Some(declared))
}

/// Forgets the keys of every node whose keys follow from an input or a result; says whether there was one.
fn forget_varying_keys(front: &mut Front<'_>) -> bool {
    let nodes = front.selected.kept.iter_mut().zip(&front.inferred);
    nodes.fold(false, |any, (kept, inferred)| {
        kept.facts.forget_varying_keys(|argument| inferred.varies(argument)) || any
    })
}

/// Why each node waits, by id.
fn order_reasons(kept: &[Kept<'_>], after: &[order::Waits]) -> BTreeMap<NodeId, BTreeMap<NodeId, Wait>> {
    let id = |index: u32| kept.get(index as usize).map(|kept| kept.event.id.clone());
    kept.iter()
        .zip(after)
        .filter(|(_, after)| !after.is_empty())
        .map(|(kept, after)| {
            let waits = after.iter().filter_map(|(index, why)| Some((id(*index)?, *why)));
            (kept.event.id.clone(), waits.collect())
        })
        .collect()
}

fn basis(kept: &Kept<'_>) -> EffectBasis {
    EffectBasis {
        tool: kept.tool.clone(),
        effect: kept.facts.effect,
        source: kept.source,
        reason: kept.reason.clone(),
    }
}

/// What is known of a call, from the most trusted source that knows it; what recordings claim can make it worse.
fn known(trace: &Trace, event: &Event, options: &Options) -> Known {
    let mut known = stated(event, options);
    if known.source != EffectSource::Plugin {
        raise(&mut known, &trace.metadata, event, "the recording");
    }
    known
}

/// What is known of a call, without what its recording claims, unless a person believes that.
fn stated(event: &Event, options: &Options) -> Known {
    if let Some(facts) = options.known_tools.get(event.tool.as_str()) {
        let (source, reason) = (EffectSource::Plugin, "the loaded plugin says so".to_owned());
        return Known { facts: facts.clone(), source, reason };
    }
    let found = options.catalogs.iter().find_map(|catalog| catalog.find(&event.tool, &event.arguments));
    let believed = options.claims == Claims::Believe && found.is_none() && event.effect != Effect::Unknown;
    let mut known = found.unwrap_or_else(Known::nothing);
    if believed {
        known.source = EffectSource::Recording;
        "the recording says so".clone_into(&mut known.reason);
        known.facts.effect = event.effect;
        known.facts.idempotency = event.idempotency;
    }
    known
}

/// Takes into account what a recording, with these notes, claims of a call.
fn raise(known: &mut Known, notes: &Map<String, Value>, event: &Event, who: &str) {
    // A recording that says nothing has `unknown` in it.
    let claim = Some(event.effect).filter(|effect| *effect != Effect::Unknown);
    known.raise(claim, event.idempotency, who);
    let hints = notes.get("untrusted_tool_hints").and_then(|hints| hints.get(&event.tool));
    if let Some(annotations) = hints.and_then(|hints| hints.get("annotations")) {
        known.raise_by_annotations(annotations);
    }
}

fn lower_node(kept: &Kept<'_>, inferred: infer::Inferred, after: &order::Waits, all: &[Kept<'_>]) -> Node {
    Node {
        id: kept.event.id.clone(),
        tool: kept.tool.clone(),
        arguments: inferred.arguments,
        after: after
            .keys()
            .filter_map(|index| all.get(*index as usize))
            .map(|earlier| earlier.event.id.clone())
            .collect(),
        effect: kept.facts.effect,
        idempotency: kept.facts.idempotency,
        timeout_ms: None,
        recorded: None,
        decisions: inferred.decisions,
    }
}

/// Whether the first candidate of a decision leads to the recorded value itself.
fn holds_the_value(
    results: &HashMap<&str, &Value>,
    inputs: &Map<String, Value>,
    node: &Node,
    decision: &Decision,
) -> bool {
    if decision.template.is_some() {
        return true;
    }
    let Some(candidate) = decision.candidates.first() else { return false };
    let found = candidate.follow(match &candidate.source {
        Source::Input(name) => inputs.get(name),
        Source::Node(id) => results.get(id.as_str()).copied(),
    });
    let wanted = node.recorded.as_ref().and_then(|recorded| lookup(&recorded.arguments, &decision.pointer));
    matches!((found, wanted), (Ok(found), Some(wanted)) if same(&found, wanted))
}

/// Most inputs that a note is made of.
const MAX_UNUSED: usize = 5;

/// A note for each input that the workflow ignores, with the way to bind it where its value stands.
fn unused_inputs(inputs: &Map<String, Value>, workflow: &Workflow) -> Vec<String> {
    let unused = workflow.unused_inputs();
    let binding = |name: &str| {
        let value = inputs.get(name)?;
        workflow.nodes.iter().find_map(|node| {
            let recorded = node.recorded.as_ref()?;
            let holds = |decision: &&Decision| {
                decision.expr().is_none()
                    && lookup(&recorded.arguments, &decision.pointer).is_some_and(|found| same(found, value))
            };
            let decision = node.decisions.iter().find(holds)?;
            let source = Source::Input(name.to_owned());
            let input = Reference { source, path: Vec::new(), convert: None }.to_string();
            Some(crate::workflow::accept_option(node.id.as_str(), &decision.pointer, &input))
        })
    };
    let note = |name: &&str| {
        let ignored = format!("nothing uses input `{name}`, so a run ignores what is given for it");
        match binding(name) {
            Some(accept) => {
                format!("{ignored}; its value stands in an argument, and `{accept}` binds it there")
            }
            None => ignored,
        }
    };
    let more = unused.len().saturating_sub(MAX_UNUSED);
    let mut notes: Vec<String> = unused.iter().take(MAX_UNUSED).map(note).collect();
    notes.extend((more > 0).then(|| format!("nothing uses {more} further inputs; `explain` marks them")));
    notes
}

/// Data in which some values are bound.
pub(crate) fn bind(data: &Map<String, Value>, bound: &BTreeMap<String, Reference>) -> Expr {
    if bound.is_empty() {
        return Expr::Literal(Value::Object(data.clone()));
    }
    let bound = bound.iter().map(|(pointer, reference)| (pointer.as_str(), Expr::Ref(reference.clone())));
    choice::members(data, "", &mut bound.collect())
}

/// For each event why it can't be a node, if so.
pub(crate) fn why_no_node(trace: &Trace) -> Vec<Option<String>> {
    let ids: HashMap<&str, usize> =
        trace.events.iter().enumerate().map(|(at, event)| (event.id.as_str(), at)).collect();
    trace.events.iter().map(|event| not_a_node(event, trace, &ids)).collect()
}

fn drop_event(event: &Event, reason: String, same_as: Option<NodeId>) -> Dropped {
    Dropped { event: event.id.to_string(), recording: None, reason, same_as }
}

/// Why an event can't be a node.
fn not_a_node(event: &Event, trace: &Trace, ids: &HashMap<&str, usize>) -> Option<String> {
    if !event.status.is_success() {
        return Some(match event.status.as_str() {
            "unanswered" => "the recording holds no answer".to_owned(),
            "cancelled" => "it was cancelled".to_owned(),
            other => format!("its status is `{}`, not a success", other.escape_debug()),
        });
    }
    // A call made inside another one runs again with it; as a node of its own it would run twice.
    if let Some(parent) = parent_of(event, trace, ids)
        && !is_workflow(parent)
    {
        return Some(format!("it was made by `{}` itself", parent.id.as_str().escape_debug()));
    }
    // A workflow is no tool that a node could call. Its calls were recorded, and they are the nodes.
    is_workflow(event).then(|| "it ran a workflow, whose own calls stand for it".to_owned())
}

fn parent_of<'t>(event: &Event, trace: &'t Trace, ids: &HashMap<&str, usize>) -> Option<&'t Event> {
    let parent = event.metadata.get("parent").and_then(serde_json::Value::as_str)?;
    ids.get(parent).and_then(|at| trace.events.get(*at)).filter(|parent| parent.id != event.id)
}

fn is_workflow(event: &Event) -> bool {
    event.metadata.get("workflow").is_some_and(serde_json::Value::is_string)
}

fn summarise(
    inputs: &Map<String, Value>,
    events: usize,
    workflow: &Workflow,
    results: &HashMap<&str, &Value>,
    after: &[order::Waits],
) -> CompileReport {
    let dropped = workflow.source.dropped.iter().filter(|dropped| dropped.recording.is_none());
    let dropped: Vec<&Dropped> = dropped.collect();
    let deduplicated = dropped.iter().filter(|dropped| dropped.same_as.is_some()).count();
    let mut report = CompileReport {
        events,
        nodes: workflow.nodes.len(),
        left_out: dropped.len() - deduplicated,
        deduplicated,
        order_edges: after.iter().map(BTreeMap::len).sum(),
        ..CompileReport::default()
    };
    for node in &workflow.nodes {
        for decision in &node.decisions {
            match decision.verdict {
                Verdict::Reference => report.references += 1,
                Verdict::Input => report.inputs += 1,
                Verdict::Ambiguous => report.ambiguous += 1,
                Verdict::Literal | Verdict::Choice => {}
            }
            // An input that was made because recordings differ may have a source that only a person can tell.
            let opened = decision.reasons.first().is_some_and(|reason| reason == infer::DIFFERS);
            let open =
                opened || matches!(decision.verdict, Verdict::Literal | Verdict::Ambiguous | Verdict::Choice);
            let template = decision.template.iter().map(ToString::to_string);
            let candidates: Vec<String> =
                template.chain(decision.candidates.iter().map(ToString::to_string)).collect();
            if open && !candidates.is_empty() {
                report.suggestions.push(Suggestion {
                    event: node.id.to_string(),
                    pointer: decision.pointer.clone(),
                    candidates,
                    acceptable: holds_the_value(results, inputs, node, decision),
                    reason: decision.reasons.join("; "),
                });
            }
        }
    }
    if report.references == 0 && report.nodes > 1 {
        let note = "no argument is a whole earlier result value: the workflow repeats the recorded calls \
                    as they were";
        report.notes.push(note.to_owned());
    }
    report.notes.extend(unused_inputs(inputs, workflow));
    let marked = |node: &Node| {
        let at = node.arguments.find_in_literals(&crate::redact::find_marker)?;
        Some(format!("`{}:{at}`", node.id))
    };
    let marked: Vec<String> = workflow.nodes.iter().filter_map(marked).collect();
    if let Some(first) = marked.first() {
        let more = match marked.len() {
            1 => String::new(),
            count => format!(" and {} more nodes", count - 1),
        };
        report.notes.push(format!(
            "a redacted secret stands inside a longer text at {first}{more}: a run refuses such a call"
        ));
    }
    let unknown = workflow.nodes.iter().filter(|node| node.effect == Effect::Unknown).count();
    if unknown > 0 {
        report.notes.push(format!(
            "{unknown} of {} nodes call tools that no loaded plugin and no catalogue knows: their recorded order is \
             kept, and they don't run until a plugin offers them (`--tool FILE.wasm`)",
            report.nodes
        ));
    }
    report
}

#[cfg(test)]
mod tests;
