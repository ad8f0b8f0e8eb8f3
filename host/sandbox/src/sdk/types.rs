//! Which imports bring types alone.
//!
//! Owns the count of a component's own types, as far as it takes to know what an imported instance holds, and what
//! the types of its world are called. Refuses to check them: the compiler does that, and links nothing that is
//! missing.
//!
//! **Invariant:** an import is said to bring types alone only if nothing in it could be called or held.

use std::collections::BTreeSet;

use wasmparser::{
    ComponentAlias, ComponentDefinedType, ComponentExternalKind, ComponentImport, ComponentOuterAliasKind,
    ComponentType, ComponentTypeRef, InstanceTypeDeclaration, TypeBounds,
};

use crate::typed::{Key, key};

/// What is known of one type.
enum Known {
    /// It is that of an instance with types alone.
    TypesAlone,
    /// It has members.
    Members(Key),
    Other,
}

/// The types that stand in a component itself, and the imports that bring types alone.
#[derive(Default)]
pub(super) struct Types {
    list: Vec<Known>,
    pub(super) imports: BTreeSet<String>,
    /// Types of the world that have members, by name.
    pub(super) named: Vec<(String, Key)>,
}

impl Types {
    pub(super) fn defined(&mut self, ty: &ComponentType<'_>) {
        self.list.push(match ty {
            ComponentType::Instance(declared) if declared.iter().all(is_type) => Known::TypesAlone,
            ComponentType::Defined(defined) => members(defined).map_or(Known::Other, Known::Members),
            _ => Known::Other,
        });
    }

    fn known(&self, index: u32) -> Option<&Known> {
        self.list.get(usize::try_from(index).ok()?)
    }

    pub(super) fn imported(&mut self, import: &ComponentImport<'_>) {
        let types_alone = match import.ty {
            ComponentTypeRef::Type(TypeBounds::Eq(index)) => {
                if let Some(Known::Members(key)) = self.known(index) {
                    let key = key.clone();
                    self.named.push((import.name.name.to_owned(), key));
                }
                true
            }
            ComponentTypeRef::Instance(index) => matches!(self.known(index), Some(Known::TypesAlone)),
            _ => false,
        };
        if types_alone {
            self.imports.insert(import.name.name.to_owned());
        }
        if matches!(import.ty, ComponentTypeRef::Type(_)) {
            self.list.push(Known::Other);
        }
    }

    pub(super) fn aliased(&mut self, alias: &ComponentAlias<'_>) {
        let is_type = matches!(
            alias,
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Type, .. }
                | ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, .. }
        );
        if is_type {
            self.list.push(Known::Other);
        }
    }

    pub(super) fn exported(&mut self, kind: ComponentExternalKind) {
        if kind == ComponentExternalKind::Type {
            self.list.push(Known::Other);
        }
    }
}

fn members(defined: &ComponentDefinedType<'_>) -> Option<Key> {
    Some(match defined {
        ComponentDefinedType::Record(fields) => key('r', fields.iter().map(|(name, _)| *name)),
        ComponentDefinedType::Variant(cases) => key('v', cases.iter().map(|case| case.name)),
        ComponentDefinedType::Enum(names) => key('e', names.iter().copied()),
        ComponentDefinedType::Flags(names) => key('f', names.iter().copied()),
        _ => return None,
    })
}

fn is_type(declared: &InstanceTypeDeclaration<'_>) -> bool {
    match declared {
        InstanceTypeDeclaration::Export { ty, .. } => {
            matches!(ty, ComponentTypeRef::Type(TypeBounds::Eq(_)))
        }
        _ => true,
    }
}
