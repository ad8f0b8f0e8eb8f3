//! What the functions of a component are called as tools.
//!
//! Owns the choice. Refuses to invent: a name is made of what stands in the component.
//!
//! **Invariant:** two functions never get the same name, whatever order they stand in.

use std::collections::BTreeMap;

/// Where a function stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'c> {
    /// Name of the exported instance, such as `ns:pkg/interface@1.2.3`; nothing for a function of the world.
    pub(crate) instance: Option<&'c str>,
    pub(crate) function: &'c str,
}

impl<'c> Place<'c> {
    /// Last part of the instance's name, without the version.
    pub(crate) fn interface(&self) -> Option<&'c str> {
        let name = self.instance?;
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        Some(name.rsplit_once('/').map_or(name, |(_, last)| last))
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        match self.instance {
            Some(instance) => format!("{instance}#{}", self.function),
            None => self.function.to_owned(),
        }
    }

    /// Names from the shortest on. What MCP's rule for names doesn't allow becomes a point.
    fn candidates(&self) -> Vec<String> {
        let function = self.function;
        let mut names = vec![function.to_owned()];
        if let (Some(instance), Some(interface)) = (self.instance, self.interface()) {
            let plain = |text: &str| text.replace([':', '/', '@', '+'], ".");
            let package = instance.split_once('@').map_or(instance, |(name, _)| name);
            names.push(format!("{interface}.{function}"));
            names.push(format!("{}.{function}", plain(package)));
            names.push(format!("{}.{function}", plain(instance)));
        }
        names
    }
}

/// A name for each function, the shortest that it shares with no other. Nothing where even the longest is taken.
pub(crate) fn of(places: &[Place<'_>]) -> Vec<Option<String>> {
    let candidates: Vec<Vec<String>> = places.iter().map(Place::candidates).collect();
    let longest = candidates.iter().map(Vec::len).max().unwrap_or_default();
    let mut levels = vec![0_usize; places.len()];
    let name = |at: usize, levels: &[usize]| {
        let (names, level) = (candidates.get(at), levels.get(at).copied().unwrap_or_default());
        names.and_then(|names| names.get(level).or(names.last())).map(String::as_str)
    };
    // Who shares a name goes on to a longer one, all of them at once, so that order plays no part.
    for _ in 0..longest {
        let mut count = BTreeMap::<&str, usize>::new();
        for found in (0..places.len()).filter_map(|at| name(at, &levels)) {
            *count.entry(found).or_default() += 1;
        }
        let shared = |at: usize| name(at, &levels).is_some_and(|name| count.get(name) > Some(&1));
        let raise: Vec<bool> = (0..places.len()).map(shared).collect();
        for (level, raise) in levels.iter_mut().zip(raise) {
            *level += usize::from(raise);
        }
    }
    let names: Vec<Option<&str>> = (0..places.len()).map(|at| name(at, &levels)).collect();
    let alone = |found: &Option<&str>| names.iter().filter(|other| *other == found).count() == 1;
    names.iter().map(|found| found.filter(|_| alone(found)).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(places: &[(&str, &str)]) -> Vec<Option<String>> {
        let places: Vec<Place<'_>> = places
            .iter()
            .map(|(instance, function)| Place {
                instance: Some(*instance).filter(|name| !name.is_empty()),
                function,
            })
            .collect();
        let mut names = of(&places);
        let backwards: Vec<Place<'_>> = places.iter().rev().copied().collect();
        let mut other = of(&backwards);
        other.reverse();
        assert_eq!(names, other, "order plays no part");
        names.iter_mut().for_each(|name| assert!(name.as_ref().is_none_or(|name| name.len() < 128)));
        names
    }

    fn some(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    }

    /// P08: a name is as short as it can be without being that of two.
    #[test]
    fn a_name_is_the_shortest_that_is_free() {
        assert_eq!(named(&[("", "add"), ("a:b/math@1.0.0", "sub")]), some(&["add", "sub"]));
        assert_eq!(
            named(&[("", "add"), ("a:b/math@1.0.0", "add"), ("own", "add")]),
            some(&["add", "math.add", "own.add"])
        );
        assert_eq!(
            named(&[("a:b/m@1.0.0", "f"), ("a:c/m@1.0.0", "f"), ("a:b/m@2.0.0-x+y", "f"), ("a:b/n", "f")]),
            some(&["a.b.m.1.0.0.f", "a.c.m.f", "a.b.m.2.0.0-x.y.f", "n.f"])
        );
        assert_eq!(named(&[("", "f"), ("", "f")]), [None, None]);
    }
}
