//! Which imports bring types alone.
//!
//! Owns the count of a component's own types, as far as it takes to know what an imported instance holds. Refuses
//! to check them: the compiler does that, and links nothing that is missing.
//!
//! **Invariant:** an import is said to bring types alone only if nothing in it could be called or held.

use std::collections::BTreeSet;

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentImport, ComponentOuterAliasKind, ComponentType,
    ComponentTypeRef, InstanceTypeDeclaration, TypeBounds,
};

/// The types that stand in a component itself, and the imports that bring types alone.
#[derive(Default)]
pub(super) struct Types {
    /// For each of the component's types, whether it is that of an instance with types alone.
    list: Vec<bool>,
    pub(super) imports: BTreeSet<String>,
}

impl Types {
    pub(super) fn defined(&mut self, ty: &ComponentType<'_>) {
        let types_alone = match ty {
            ComponentType::Instance(declared) => declared.iter().all(is_type),
            _ => false,
        };
        self.list.push(types_alone);
    }

    pub(super) fn imported(&mut self, import: &ComponentImport<'_>) {
        let types_alone = match import.ty {
            ComponentTypeRef::Type(TypeBounds::Eq(_)) => true,
            ComponentTypeRef::Instance(index) => {
                usize::try_from(index).ok().and_then(|at| self.list.get(at)) == Some(&true)
            }
            _ => false,
        };
        if types_alone {
            self.imports.insert(import.name.name.to_owned());
        }
        if matches!(import.ty, ComponentTypeRef::Type(_)) {
            self.list.push(false);
        }
    }

    pub(super) fn aliased(&mut self, alias: &ComponentAlias<'_>) {
        let is_type = matches!(
            alias,
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Type, .. }
                | ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, .. }
        );
        if is_type {
            self.list.push(false);
        }
    }

    pub(super) fn exported(&mut self, kind: ComponentExternalKind) {
        if kind == ComponentExternalKind::Type {
            self.list.push(false);
        }
    }
}

fn is_type(declared: &InstanceTypeDeclaration<'_>) -> bool {
    match declared {
        InstanceTypeDeclaration::Export { ty, .. } => {
            matches!(ty, ComponentTypeRef::Type(TypeBounds::Eq(_)))
        }
        _ => true,
    }
}
