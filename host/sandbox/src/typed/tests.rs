//! The laws of conversion, over generated types and values.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use t2m_core::schema::Schema;
use wasmtime::Engine;
use wasmtime::component::{Component, Val};

use super::shape::{Int, MAX_DEPTH, Members, Named, Shape};
use super::{Functions, read, schema, write};
use crate::error::SandboxError;

const MUCH: usize = 64 << 20;

fn named<T>(names: &'static str) -> impl Fn(Vec<(bool, T)>) -> Members<T> {
    move |list| {
        let list = list.into_iter().enumerate().map(|(at, (doc, of))| Named {
            name: format!("{names}-{at}"),
            doc: doc.then(|| format!("About {at}.")),
            of,
        });
        Members::new(None, list.collect())
    }
}

fn int() -> impl Strategy<Value = Int> {
    prop::sample::select(vec![Int::U8, Int::S8, Int::U16, Int::S16, Int::U32, Int::S32, Int::U64, Int::S64])
}

fn shape() -> impl Strategy<Value = Shape> {
    let words = |names| vec((any::<bool>(), Just(())), 1..4).prop_map(named(names));
    let leaf = prop_oneof![
        Just(Shape::Bool),
        int().prop_map(Shape::Int),
        int().prop_map(Shape::Int),
        Just(Shape::F32),
        Just(Shape::F64),
        Just(Shape::Char),
        Just(Shape::String),
        Just(Shape::Bytes),
        words("case").prop_map(Shape::Enum),
        words("flag").prop_map(Shape::Flags),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(Shape::List),
            vec((any::<bool>(), inner.clone()), 1..4).prop_map(named("field")).prop_map(Shape::Record),
            vec(inner.clone(), 0..4).prop_map(Shape::Tuple),
            vec((any::<bool>(), option::of(inner.clone())), 1..4)
                .prop_map(named("case"))
                .prop_map(Shape::Variant),
            boxed.clone().prop_map(Shape::Option),
            boxed.clone().prop_map(|inner| Shape::Option(Box::new(Shape::Option(inner)))),
            (option::of(boxed.clone()), option::of(boxed)).prop_map(|(ok, err)| Shape::Result { ok, err }),
        ]
    })
}

fn int_value(int: Int) -> BoxedStrategy<Val> {
    // Edges are where a rule breaks.
    fn edged<T: Copy + std::fmt::Debug + 'static>(
        all: impl Strategy<Value = T> + 'static,
        edges: Vec<T>,
    ) -> BoxedStrategy<T> {
        prop_oneof![3 => all, 2 => prop::sample::select(edges)].boxed()
    }
    const SAFE: i64 = (1 << 53) - 1;
    match int {
        Int::U8 => any::<u8>().prop_map(Val::U8).boxed(),
        Int::S8 => any::<i8>().prop_map(Val::S8).boxed(),
        Int::U16 => edged(any::<u16>(), vec![0, u16::MAX]).prop_map(Val::U16).boxed(),
        Int::S16 => edged(any::<i16>(), vec![i16::MIN, i16::MAX]).prop_map(Val::S16).boxed(),
        Int::U32 => edged(any::<u32>(), vec![0, u32::MAX]).prop_map(Val::U32).boxed(),
        Int::S32 => edged(any::<i32>(), vec![i32::MIN, i32::MAX]).prop_map(Val::S32).boxed(),
        Int::U64 => edged(any::<u64>(), vec![0, 9, 10, SAFE as u64, SAFE as u64 + 1, u64::MAX, u64::MAX - 1])
            .prop_map(Val::U64)
            .boxed(),
        Int::S64 => edged(any::<i64>(), vec![i64::MIN, i64::MAX, SAFE, -SAFE, SAFE + 1, -SAFE - 1, -1])
            .prop_map(Val::S64)
            .boxed(),
    }
}

fn value(shape: &Shape) -> BoxedStrategy<Val> {
    match shape {
        Shape::Bool => any::<bool>().prop_map(Val::Bool).boxed(),
        Shape::Int(int) => int_value(*int),
        Shape::F32 => any::<u32>().prop_map(|bits| Val::Float32(f32::from_bits(bits))).boxed(),
        Shape::F64 => any::<u64>().prop_map(|bits| Val::Float64(f64::from_bits(bits))).boxed(),
        Shape::Char => any::<char>().prop_map(Val::Char).boxed(),
        Shape::String => any::<String>().prop_map(Val::String).boxed(),
        Shape::Bytes => {
            vec(any::<u8>(), 0..6).prop_map(|b| Val::List(b.into_iter().map(Val::U8).collect())).boxed()
        }
        Shape::List(of) => vec(value(of), 0..4).prop_map(Val::List).boxed(),
        Shape::Tuple(shapes) => all(shapes.iter().map(value)).prop_map(Val::Tuple).boxed(),
        Shape::Record(fields) => {
            let names: Vec<_> = fields.list.iter().map(|field| field.name.clone()).collect();
            let values = all(fields.list.iter().map(|field| value(&field.of)));
            values.prop_map(move |values| Val::Record(names.iter().cloned().zip(values).collect())).boxed()
        }
        Shape::Variant(cases) => {
            let each = cases.list.iter().map(|case| {
                let name = case.name.clone();
                match &case.of {
                    None => Just(Val::Variant(name, None)).boxed(),
                    Some(of) => {
                        value(of).prop_map(move |v| Val::Variant(name.clone(), Some(Box::new(v)))).boxed()
                    }
                }
            });
            proptest::strategy::Union::new(each).boxed()
        }
        Shape::Enum(names) => {
            let names = names.list.iter().map(|name| name.name.clone()).collect::<Vec<_>>();
            prop::sample::select(names).prop_map(Val::Enum).boxed()
        }
        Shape::Flags(names) => {
            let names = names.list.iter().map(|name| name.name.clone()).collect::<Vec<_>>();
            let most = names.len();
            prop::sample::subsequence(names, 0..=most).prop_map(Val::Flags).boxed()
        }
        Shape::Option(of) => option::of(value(of)).prop_map(|v| Val::Option(v.map(Box::new))).boxed(),
        Shape::Result { ok, err } => {
            let side = |shape: &Option<Box<Shape>>| match shape {
                Some(shape) => value(shape).prop_map(|v| Some(Box::new(v))).boxed(),
                None => Just(None).boxed(),
            };
            prop_oneof![
                side(ok).prop_map(|v| Val::Result(Ok(v))),
                side(err).prop_map(|v| Val::Result(Err(v)))
            ]
            .boxed()
        }
    }
}

fn all(each: impl Iterator<Item = BoxedStrategy<Val>>) -> BoxedStrategy<Vec<Val>> {
    each.collect::<Vec<_>>().boxed()
}

fn shape_and_value() -> impl Strategy<Value = (Shape, Val)> {
    shape().prop_flat_map(|shape| {
        let value = value(&shape);
        (Just(shape), value)
    })
}

/// JSON that is near to what types look like.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "ok",
        "err",
        "some",
        "field-0",
        "field-1",
        "case-0",
        "case-1",
        "flag-0",
        "flag-1",
        "NaN",
        "-Infinity",
        "a",
        "",
        "ä",
        "aGk=",
        "aGl=",
        "aGk",
        "0",
        "-0",
        "007",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "9223372036854775808",
        "9007199254740993",
        "1e3",
        " 1",
    ]);
    let number = prop_oneof![
        any::<i64>().prop_map(|n| json!(n)),
        any::<u64>().prop_map(|n| json!(n)),
        any::<i8>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        prop::sample::select(vec![
            json!(0),
            json!(-0.0),
            json!(1.0),
            json!(2.5),
            json!(255),
            json!(256),
            json!(-129),
            json!(65_536),
            json!(4_294_967_296_u64),
            json!(9_007_199_254_740_991_u64),
            json!(9_007_199_254_740_992_u64),
            json!(-9_007_199_254_740_992_i64),
            json!(3.5e38),
            json!(3.402_823_466_385_288_6e38),
            json!(1e300),
        ]),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        word.clone().prop_map(|word| json!(word)),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((word.clone(), inner), 0..3)
                .prop_map(|entries| entries
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<Map<_, _>>())
                .prop_map(Value::Object),
        ]
    })
}

/// Puts something else in one place of a value, or takes or adds a member.
fn change(json: &mut Value, mut at: usize, other: &Value) {
    match json {
        Value::Array(items) if !at.is_multiple_of(4) && !items.is_empty() => {
            at /= 4;
            let (place, rest) = (at % items.len(), at / items.len());
            change(&mut items[place], rest, other);
        }
        Value::Array(items) if at % 8 == 4 => items.push(other.clone()),
        Value::Object(map) if !at.is_multiple_of(4) && !map.is_empty() => {
            at /= 4;
            let place = at % map.len();
            let key = map.keys().nth(place).cloned().unwrap();
            if at % 5 == 1 {
                map.remove(&key);
            } else {
                change(map.get_mut(&key).unwrap(), at / 5, other);
            }
        }
        Value::Object(map) if at % 8 == 4 => {
            map.insert("stray".to_owned(), other.clone());
        }
        json => *json = other.clone(),
    }
}

fn read(shape: &Shape, json: &Value) -> Result<Val, read::Fault> {
    read::value(shape, json, &mut read::Room::new(MUCH))
}

fn write(shape: &Shape, val: &Val) -> Value {
    write::json(shape, val.clone(), &mut write::Room::new(MUCH)).unwrap()
}

fn compiled(shape: &Shape) -> Schema {
    Schema::compile(&schema::of(shape)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// P08: a value is the same after it was JSON, also as text, and the schema allows that JSON.
    #[test]
    fn a_value_survives_being_json((shape, val) in shape_and_value()) {
        let json = write(&shape, &val);
        prop_assert_eq!(read(&shape, &json), Ok(val.clone()), "{}", json);
        let text = json.to_string();
        // The core's reader takes no whole float from 2^64 to 10^30, which could be an integer that was rounded.
        let again: Value = serde_json::from_str(&text).map_err(|why| TestCaseError::fail(why.to_string()))?;
        prop_assert_eq!(read(&shape, &again), Ok(val), "{}", text);
        let faults = compiled(&shape).faults(&json);
        prop_assert!(faults.is_empty(), "{} against {}: {:?}", json, schema::of(&shape), faults);
    }

    /// P08: whatever the JSON, the schema allows exactly what can be converted, and a value so made is the same
    /// after it was JSON again.
    #[test]
    fn the_schema_allows_what_converts(shape in shape(), json in any_json()) {
        let read = read(&shape, &json);
        prop_assert_eq!(compiled(&shape).allows(&json), read.is_ok(), "{} as {:?}: {:?}", json, shape, read);
        if let Ok(val) = read {
            prop_assert_eq!(self::read(&shape, &write(&shape, &val)), Ok(val));
        }
    }

    /// P08: a value of which one place is changed is either still one by both, or refused by both.
    #[test]
    fn a_changed_value_is_refused_by_both((shape, val) in shape_and_value(), at in any::<usize>(), other in any_json()) {
        let mut json = write(&shape, &val);
        change(&mut json, at, &other);
        let read = read(&shape, &json);
        prop_assert_eq!(compiled(&shape).allows(&json), read.is_ok(), "{} as {:?}: {:?}", json, shape, read);
    }

    /// P08: JSON is never longer than allowed, and a limit breaks without a panic.
    #[test]
    fn json_is_no_longer_than_its_room((shape, val) in shape_and_value(), room in 0_usize..200) {
        match write::json(&shape, val.clone(), &mut write::Room::new(room)) {
            Ok(json) => prop_assert!(json.to_string().len() <= room, "{}", json),
            Err(why) => prop_assert_eq!(why, write::Unwritten::TooLong),
        }
    }

    /// P08: any bytes that are JSON at all convert or are refused with a place, in whatever room.
    #[test]
    fn any_text_converts_or_is_refused(shape in shape(), text in "[\\[\\]{}\",:0-9a-z.eE+-]{0,40}", room in 0_usize..500) {
        if let Ok(json) = t2m_core::json::parse(text.as_bytes(), t2m_core::json::Limits::default()) {
            match read::value(&shape, &json, &mut read::Room::new(room)) {
                Ok(val) => drop(write(&shape, &val)),
                Err(fault) => prop_assert!(!fault.message().is_empty() && fault.pointer().len() < 200),
            }
        }
    }
}

/// P08: the schema of the deepest type can be read back, wherever it is written to.
#[test]
fn the_deepest_schema_can_be_read_back() {
    let deepest = (0..=MAX_DEPTH)
        .fold(Shape::Int(Int::U64), |inner, _| Shape::Variant(named("case")(vec![(true, Some(inner))])));
    let contracts = json!({"contracts": [{"input_schema": schema::only("x", schema::of(&deepest))}]});
    let limits = t2m_core::json::Limits { depth: 116, ..t2m_core::json::Limits::default() };
    assert!(t2m_core::json::parse(contracts.to_string().as_bytes(), limits).is_ok());
}

fn fault(shape: &Shape, json: &Value) -> (String, String) {
    let fault = read(shape, json).unwrap_err();
    (fault.pointer(), fault.message().to_owned())
}

/// P08: the rules of docs/components.md, one by one.
#[test]
fn each_type_has_its_form() {
    let maybe = |of| Shape::Option(Box::new(of));
    let u8s = || Shape::Int(Int::U8);
    let some = |val| Val::Option(Some(Box::new(val)));
    let variant = named("case")(vec![(false, None), (false, Some(u8s()))]);
    let table = [
        (Shape::Int(Int::U64), Val::U64(9_007_199_254_740_991), json!(9_007_199_254_740_991_u64)),
        (Shape::Int(Int::U64), Val::U64(9_007_199_254_740_992), json!("9007199254740992")),
        (Shape::Int(Int::S64), Val::S64(i64::MIN), json!("-9223372036854775808")),
        (Shape::F64, Val::Float64(f64::NAN), json!("NaN")),
        (Shape::F32, Val::Float32(f32::NEG_INFINITY), json!("-Infinity")),
        (Shape::F32, Val::Float32(0.1), json!(0.100_000_001_490_116_12)),
        (Shape::Char, Val::Char('😀'), json!("😀")),
        (Shape::Bytes, Val::List(vec![Val::U8(104), Val::U8(105)]), json!("aGk=")),
        (maybe(maybe(u8s())), Val::Option(None), json!(null)),
        (maybe(maybe(u8s())), some(Val::Option(None)), json!({"some": null})),
        (maybe(maybe(u8s())), some(some(Val::U8(5))), json!({"some": 5})),
        (maybe(maybe(maybe(u8s()))), some(some(some(Val::U8(5)))), json!({"some": {"some": 5}})),
        (Shape::Result { ok: None, err: None }, Val::Result(Ok(None)), json!({"ok": null})),
        (Shape::Variant(variant.clone()), Val::Variant("case-0".into(), None), json!("case-0")),
        (
            Shape::Variant(variant),
            Val::Variant("case-1".into(), Some(Box::new(Val::U8(1)))),
            json!({"case-1": 1}),
        ),
    ];
    for (shape, val, json) in table {
        assert_eq!(write(&shape, &val), json);
        assert_eq!(read(&shape, &json).unwrap(), val, "{json}");
        assert!(compiled(&shape).allows(&json), "{json}");
    }
    assert_eq!(
        read(&Shape::Int(Int::U64), &json!("7")).unwrap(),
        Val::U64(7),
        "also where it needn't be a text"
    );
    assert_eq!(read(&Shape::Int(Int::U8), &json!(7.0)).unwrap(), Val::U8(7));
}

/// P08: a fault has its place and says what to do.
#[test]
fn a_fault_says_where_and_what() {
    let fields =
        named("field")(vec![(false, Shape::Int(Int::U64)), (false, Shape::List(Box::new(Shape::Bool)))]);
    let record = Shape::Record(fields);
    let (place, message) = fault(&record, &json!({"field-0": 9_007_199_254_740_993_u64, "field-1": []}));
    assert_eq!(place, "/field-0");
    assert!(message.ends_with("write a larger one as a string of digits"), "{message}");
    assert_eq!(fault(&record, &json!({"field-0": 1, "field-1": [true, 1]})).0, "/field-1/1");
    assert_eq!(fault(&record, &json!({"field-0": 1})).1, "`field-1` is missing");
    assert_eq!(fault(&record, &json!({"field-0": 1, "field-1": [], "a/b": 1})).0, "/a~1b");
}

/// P08: what arguments take here is bounded before it is taken.
#[test]
fn arguments_have_room() {
    let room = |bytes| read::value(&Shape::Bytes, &json!("AAAA".repeat(1_000)), &mut read::Room::new(bytes));
    assert!(room(200_000).is_ok());
    assert!(room(10_000).unwrap_err().message().contains("transfer_bytes"));
}

/// Finds the functions of a component whose functions each return one of these types.
fn found(types: &str, results: &[&str]) -> Result<Functions, SandboxError> {
    let function = |(at, result): (usize, &&str)| {
        format!(
            r#"(func (export "f{at}") (result {result})
                (canon lift (core func $i "none") (memory $i "memory")))"#
        )
    };
    let functions: String = results.iter().enumerate().map(function).collect();
    let text = format!(
        r#"(component
            (core module $m (memory (export "memory") 1) (func (export "none") (result i32) i32.const 0))
            (core instance $i (instantiate $m))
            {types} {functions})"#
    );
    let engine = Engine::default();
    let component = Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
    Functions::find(&engine, &component, None, &[])
}

/// P08: types that would fill memory or the stack leave their function out, and no other.
#[test]
fn types_without_end_are_left_out() {
    let nested = |levels: usize| format!("{}u8{}", "(list ".repeat(levels), ")".repeat(levels));
    let (fits, deep) = (nested(MAX_DEPTH + 1), nested(MAX_DEPTH + 2));
    // Each level twice that of the one before: 2^17 parts of some hundred bytes.
    let doubled = |at: usize| format!("(type $t{at} (tuple $t{} $t{}))", at - 1, at - 1);
    let types: String = (1..18).map(doubled).collect();
    let types = format!("(type $t0 (tuple string)) {types}");
    let functions = found(&types, &["string", &fits, &deep, "$t5", "$t17", "$t6"]).unwrap();
    let names: Vec<&str> = functions.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["f0", "f1", "f3", "f5"]);
    let left_out: Vec<_> =
        functions.left_out().iter().map(|out| (out.function.as_str(), &*out.reason)).collect();
    assert_eq!((left_out[0].0, left_out[1].0), ("f2", "f4"));
    assert!(left_out[0].1.contains("deeper") && left_out[1].1.contains("too many parts"), "{left_out:?}");
}

/// P08: all functions together have a limit too, in number and in what their types take.
#[test]
fn functions_without_end_are_refused() {
    let many = vec!["string"; 1_001];
    let error = found("", &many).err().unwrap();
    assert!(error.message().contains("1001 functions"), "{error}");
    let doubled: String =
        (1..11).map(|at| format!("(type $t{at} (tuple $t{} $t{}))", at - 1, at - 1)).collect();
    let functions = found(&format!("(type $t0 (tuple string)) {doubled}"), &["$t10"; 30]).unwrap();
    assert_eq!(functions.tools().len() + functions.left_out().len(), 30);
    assert!((10..20).contains(&functions.tools().len()), "{}", functions.tools().len());
}
