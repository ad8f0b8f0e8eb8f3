//! The operator's rules: which effects and tools may run, and which need a person.
//!
//! Owns the rules and the decision. Refuses to look at workflows or traces for permission: only the
//! reviewed contract's effect and the tool's name count.
//!
//! **Invariant:** deny wins. Adding a rule that denies never allows anything that was not allowed before.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::id::ToolName;

/// What a rule says.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The call may run.
    Allow,
    /// The call may run once a person approved it.
    Approval,
    /// The call may not run.
    Deny,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    /// The tool.
    pub tool: &'a ToolName,
    /// The effect of its reviewed contract.
    pub effect: Effect,
}

/// The answer, with the rule that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyDecision<'a> {
    /// What to do.
    pub action: Action,
    /// The rule that decided.
    pub rule: Rule<'a>,
}

/// What can decide; its text is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule<'a> {
    /// One of [`Policy::tools`].
    Tool(&'a ToolName),
    /// One of [`Policy::effects`].
    Effect(Effect),
    /// What holds for an effect that no rule names.
    Default(Effect),
}

impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Tool(tool) => write!(f, "policy.tools.{tool}"),
            Rule::Effect(effect) => write!(f, "policy.effects.{effect}"),
            Rule::Default(effect) => write!(f, "the default for `{effect}`"),
        }
    }
}

/// Rules by effect and by tool. What no rule names falls to the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Rules for every tool with an effect.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"enum": Effect::ALL}))]
    pub effects: BTreeMap<Effect, Action>,
    /// Rules for single tools.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"pattern": "^[A-Za-z0-9_.-]{1,128}$"}))]
    pub tools: BTreeMap<ToolName, Action>,
}

/// What happens to an effect that no rule names: reading is free, changing needs a person, and removing or
/// doing something unknown is refused.
pub const fn default_action(effect: Effect) -> Action {
    match effect {
        Effect::Pure | Effect::Read => Action::Allow,
        Effect::Write | Effect::ExternalSideEffect => Action::Approval,
        Effect::Delete | Effect::Unknown => Action::Deny,
    }
}

impl Policy {
    /// Decides one call: the strictest rule that names its tool or effect, else the default of its effect.
    pub fn decide<'a>(&self, input: PolicyInput<'a>) -> PolicyDecision<'a> {
        let PolicyInput { tool, effect } = input;
        let by_tool = self.tools.get(tool).map(|action| (*action, Rule::Tool(tool)));
        let by_effect = self.effects.get(&effect).map(|action| (*action, Rule::Effect(effect)));
        let (action, rule) = by_tool
            .into_iter()
            .chain(by_effect)
            .max_by_key(|(action, _)| *action)
            .unwrap_or_else(|| (default_action(effect), Rule::Default(effect)));
        PolicyDecision { action, rule }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![Just(Action::Allow), Just(Action::Approval), Just(Action::Deny)]
    }

    proptest! {
        /// T22: the policy is monotone; one more denying rule never opens anything.
        #[test]
        fn a_denying_rule_never_allows_more(
            effects in proptest::collection::btree_map(0..6usize, action(), 0..6),
            tools in proptest::collection::btree_map(0..3usize, action(), 0..3),
            denied_effect in 0..6usize,
        ) {
            let name = |index: usize| ToolName::new(format!("tool{index}")).unwrap();
            let policy = Policy {
                effects: effects.into_iter().map(|(k, v)| (Effect::ALL[k], v)).collect(),
                tools: tools.into_iter().map(|(k, v)| (name(k), v)).collect(),
            };
            let mut stricter = policy.clone();
            stricter.effects.insert(Effect::ALL[denied_effect], Action::Deny);
            for effect in Effect::ALL {
                for tool in 0..4 {
                    let tool = name(tool);
                    let input = PolicyInput { tool: &tool, effect };
                    prop_assert!(stricter.decide(input).action >= policy.decide(input).action);
                }
            }
            prop_assert_eq!(
                stricter.decide(PolicyInput { tool: &name(3), effect: Effect::ALL[denied_effect] }).action,
                Action::Deny
            );
        }
    }

    /// T22: effects are denied or need a person by default.
    #[test]
    fn nothing_with_an_effect_is_allowed_by_default() {
        let tool = ToolName::new("x").unwrap();
        for effect in Effect::ALL {
            let decision = Policy::default().decide(PolicyInput { tool: &tool, effect });
            assert_eq!(decision.action == Action::Allow, effect.is_read_only(), "{effect}");
        }
    }
}
