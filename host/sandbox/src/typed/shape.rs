//! What a value of a WIT type looks like.
//!
//! Owns the model of a type on which schemas and conversions work, made from the engine's types once, when a
//! component is loaded. Refuses what JSON can't hold: handles, streams and what waits.
//!
//! **Invariant:** a shape is no deeper than [`MAX_DEPTH`] and all shapes of a component together have a bounded
//! number of parts, so whatever walks one may recurse.

use std::collections::BTreeMap;

use wasmtime::component::types::Type;

use super::docs::Docs;

/// Levels of a type. 24: a schema has up to four levels for each of them, and a file of contracts with such
/// schemas stays below the 128 that this host reads.
pub(crate) const MAX_DEPTH: usize = 24;

/// Parts of all types of one function. The largest functions of WASI have some hundreds.
const MAX_FUNCTION: usize = 4_000;

/// Parts of all types of one component. A type that is used twice counts twice, as it does in the schemas.
const MAX_COMPONENT: usize = 40_000;

/// Bytes of names and comments that count as one part.
const PART_BYTES: usize = 64;

/// The form of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Bool,
    Int(Int),
    F32,
    F64,
    Char,
    String,
    /// `list<u8>`.
    Bytes,
    List(Box<Shape>),
    Record(Members<Shape>),
    Tuple(Vec<Shape>),
    Variant(Members<Option<Shape>>),
    Enum(Members<()>),
    Flags(Members<()>),
    Option(Box<Shape>),
    Result {
        ok: Option<Box<Shape>>,
        err: Option<Box<Shape>>,
    },
}

impl Shape {
    /// Whether JSON's `null` stands for one of its values, so that an `option` around it needs another word.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(self, Shape::Option(_))
    }
}

/// The members of a named type, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Members<T> {
    /// What the type is.
    pub(crate) doc: Option<String>,
    pub(crate) list: Vec<Named<T>>,
    /// Where each name stands: a list of values is looked up name by name.
    places: BTreeMap<String, usize>,
}

impl<T> Members<T> {
    pub(crate) fn new(doc: Option<String>, list: Vec<Named<T>>) -> Members<T> {
        let places = list.iter().enumerate().map(|(at, member)| (member.name.clone(), at)).collect();
        Members { doc, list, places }
    }

    /// The member of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Named<T>> {
        self.list.get(*self.places.get(name)?)
    }
}

/// One member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named<T> {
    pub(crate) name: String,
    /// What it is.
    pub(crate) doc: Option<String>,
    pub(crate) of: T,
}

/// An integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Int {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

/// Largest integer that every reader of JSON keeps exactly: 2^53 - 1.
pub(crate) const MAX_SAFE: i128 = (1 << 53) - 1;

impl Int {
    /// The smallest and the largest value.
    pub(crate) fn range(self) -> (i128, i128) {
        match self {
            Int::U8 => (u8::MIN.into(), u8::MAX.into()),
            Int::S8 => (i8::MIN.into(), i8::MAX.into()),
            Int::U16 => (u16::MIN.into(), u16::MAX.into()),
            Int::S16 => (i16::MIN.into(), i16::MAX.into()),
            Int::U32 => (u32::MIN.into(), u32::MAX.into()),
            Int::S32 => (i32::MIN.into(), i32::MAX.into()),
            Int::U64 => (u64::MIN.into(), u64::MAX.into()),
            Int::S64 => (i64::MIN.into(), i64::MAX.into()),
        }
    }

    /// The range within which a value is a JSON number.
    pub(crate) fn number_range(self) -> (i128, i128) {
        let (low, high) = self.range();
        (low.max(-MAX_SAFE), high.min(MAX_SAFE))
    }

    /// Whether some of its values are no JSON numbers.
    pub(crate) fn is_wide(self) -> bool {
        self.range() != self.number_range()
    }
}

/// How many parts the types of a component may still have.
pub(crate) struct Budget {
    component: usize,
    function: usize,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { component: MAX_COMPONENT, function: 0 }
    }

    /// Begins another function.
    pub(crate) fn next_function(&mut self) {
        self.function = MAX_FUNCTION;
    }

    fn take(&mut self, texts: usize) -> Result<(), String> {
        let parts = 1 + texts / PART_BYTES;
        let fits = parts <= self.function && parts <= self.component;
        self.function = self.function.saturating_sub(parts);
        self.component = self.component.saturating_sub(parts);
        if fits {
            return Ok(());
        }
        Err(format!(
            "its types have too many parts: at most {MAX_FUNCTION} are taken for a function, {MAX_COMPONENT} for a component"
        ))
    }

    /// Takes a member and the words about it.
    pub(crate) fn named<T>(&mut self, name: &str, doc: Option<&str>, of: T) -> Result<Named<T>, String> {
        self.take(name.len().saturating_add(doc.map_or(0, str::len)))?;
        Ok(Named { name: name.to_owned(), doc: doc.map(str::to_owned), of })
    }
}

/// The form of a type. The error says what of it JSON can't hold.
pub(crate) fn of_type(ty: &Type, docs: &Docs, budget: &mut Budget, depth: usize) -> Result<Shape, String> {
    if depth > MAX_DEPTH {
        return Err(format!("its types are nested deeper than {MAX_DEPTH} levels"));
    }
    budget.take(0)?;
    let deeper = depth + 1;
    let refused = |what: &str| Err(format!("{what} has no form in JSON"));
    Ok(match ty {
        Type::Bool => Shape::Bool,
        Type::U8 => Shape::Int(Int::U8),
        Type::S8 => Shape::Int(Int::S8),
        Type::U16 => Shape::Int(Int::U16),
        Type::S16 => Shape::Int(Int::S16),
        Type::U32 => Shape::Int(Int::U32),
        Type::S32 => Shape::Int(Int::S32),
        Type::U64 => Shape::Int(Int::U64),
        Type::S64 => Shape::Int(Int::S64),
        Type::Float32 => Shape::F32,
        Type::Float64 => Shape::F64,
        Type::Char => Shape::Char,
        Type::String => Shape::String,
        Type::List(list) => match list.ty() {
            Type::U8 => Shape::Bytes,
            item => Shape::List(Box::new(of_type(&item, docs, budget, deeper)?)),
        },
        Type::Record(record) => {
            let about = docs.members('r', record.fields().map(|field| field.name));
            let mut list = Vec::new();
            for field in record.fields() {
                let of = of_type(&field.ty, docs, budget, deeper)?;
                list.push(budget.named(field.name, about.member(field.name), of)?);
            }
            Shape::Record(members(about.doc(), list, budget)?)
        }
        Type::Tuple(tuple) => {
            let types = tuple.types().map(|ty| of_type(&ty, docs, budget, deeper));
            Shape::Tuple(types.collect::<Result<_, _>>()?)
        }
        Type::Variant(variant) => {
            let about = docs.members('v', variant.cases().map(|case| case.name));
            let mut list = Vec::new();
            for case in variant.cases() {
                let of = case.ty.map(|ty| of_type(&ty, docs, budget, deeper)).transpose()?;
                list.push(budget.named(case.name, about.member(case.name), of)?);
            }
            Shape::Variant(members(about.doc(), list, budget)?)
        }
        Type::Enum(cases) => Shape::Enum(plain('e', &cases.names().collect::<Vec<_>>(), docs, budget)?),
        Type::Flags(flags) => Shape::Flags(plain('f', &flags.names().collect::<Vec<_>>(), docs, budget)?),
        Type::Option(option) => Shape::Option(Box::new(of_type(&option.ty(), docs, budget, deeper)?)),
        Type::Result(result) => {
            let mut side =
                |ty: Option<Type>| ty.map(|ty| of_type(&ty, docs, budget, deeper).map(Box::new)).transpose();
            Shape::Result { ok: side(result.ok())?, err: side(result.err())? }
        }
        Type::Own(_) | Type::Borrow(_) => return refused("a resource"),
        Type::Future(_) => return refused("a future"),
        Type::Stream(_) => return refused("a stream"),
        Type::ErrorContext => return refused("an error-context"),
        // Not part of the component model that the engine is set up for.
        Type::Map(_) => return refused("a map"),
        Type::FixedLengthList(_) => return refused("a list of fixed length"),
    })
}

fn members<T>(doc: Option<&str>, list: Vec<Named<T>>, budget: &mut Budget) -> Result<Members<T>, String> {
    budget.take(doc.map_or(0, str::len))?;
    Ok(Members::new(doc.map(str::to_owned), list))
}

fn plain(kind: char, names: &[&str], docs: &Docs, budget: &mut Budget) -> Result<Members<()>, String> {
    let about = docs.members(kind, names.iter().copied());
    let named = |name: &&str| budget.named(name, about.member(name), ());
    let list = names.iter().map(named).collect::<Result<_, _>>()?;
    members(about.doc(), list, budget)
}
