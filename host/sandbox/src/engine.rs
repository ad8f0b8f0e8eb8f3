//! The engine.
//!
//! Owns every setting of the engine and the choice of allocator. Refuses to know plugins.
//!
//! **Invariant:** fuel and epochs are compiled into all code, so no guest can hold a worker for longer than
//! one tick, nor run past its fuel.

use t2m_core::code::Code;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::error::SandboxError;
use crate::sandbox::SandboxConfig;

/// Stack of a guest. 512 KiB is the engine's own default.
const WASM_STACK: usize = 512 << 10;

/// Stack that a call runs on; what the guest doesn't use is for host functions, nested calls included.
const FIBER_STACK: usize = 2 << 20;

/// Bytes of a used memory that stay with its slot, to be cleared instead of faulted in again. 2 MiB covers
/// the whole memory of an ordinary Rust plugin, of which only the pages that a call touched are cleared.
const KEEP_RESIDENT: usize = 2 << 20;

/// The same where the kernel doesn't tell which pages those are, so that all of it is cleared for each call.
const KEEP_RESIDENT_BLIND: usize = 128 << 10;

/// The version that the workspace pins; the engine has no way to ask for it.
const WASMTIME: &str = "48.0.8";

/// How the sandbox runs on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineInfo {
    /// Version of wasmtime.
    pub wasmtime: &'static str,
    /// Whether instances come from a pool made at start. If not, each costs about 50 µs more.
    pub pooling: bool,
    /// Whether the kernel tells which pages a call touched (Linux 6.7), so that only those are cleared.
    pub pagemap_scan: bool,
    /// Instances that can live at once, nested calls included.
    pub instances: u32,
}

/// Makes an engine: with a pool if asked for or if the machine has room for one.
pub(crate) fn open(config: &SandboxConfig) -> Result<(Engine, EngineInfo), SandboxError> {
    let instances = config.instances();
    let info = |pooling| EngineInfo {
        wasmtime: WASMTIME,
        pooling,
        pagemap_scan: pooling && PoolingAllocationConfig::is_pagemap_scan_available(),
        instances,
    };
    let fault = |error: wasmtime::Error| {
        SandboxError::new(Code::Internal, format!("the engine can't be set up: {error:#}"))
    };
    if config.pooling != Some(false) {
        match Engine::new(&settings(Some(pool(config, instances)))) {
            Ok(engine) => return Ok((engine, info(true))),
            Err(error) if config.pooling == Some(true) => return Err(fault(error)),
            Err(error) => {
                tracing::debug!(target: "t2m_sandbox", "no pool of instances: {error:#}");
            }
        }
    }
    let engine = Engine::new(&settings(None)).map_err(fault)?;
    Ok((engine, info(false)))
}

pub(crate) fn settings(pool: Option<PoolingAllocationConfig>) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK)
        // The same inputs must give the same bits on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    if let Some(pool) = pool {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

fn pool(config: &SandboxConfig, instances: u32) -> PoolingAllocationConfig {
    let each = |count: usize| instances.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    let keep = if PoolingAllocationConfig::is_pagemap_scan_available() {
        KEEP_RESIDENT
    } else {
        KEEP_RESIDENT_BLIND
    };
    let mut pool = PoolingAllocationConfig::new();
    // Each memory reserves 4 GiB of addresses. Most plugins have one; a few with more share what is left,
    // and when nothing is, a call ends with `sandbox-busy`.
    pool.total_component_instances(instances)
        .total_stacks(instances)
        .total_core_instances(each(config.ceiling.instances.min(32)))
        .total_memories(each(2))
        .total_tables(each(4))
        .max_memories_per_module(u32::try_from(config.ceiling.memories).unwrap_or(u32::MAX))
        .max_tables_per_module(u32::try_from(config.ceiling.tables).unwrap_or(u32::MAX))
        .max_memory_size(config.ceiling.memory_bytes)
        .table_elements(config.ceiling.table_elements)
        .linear_memory_keep_resident(keep)
        .table_keep_resident(keep)
        .pagemap_scan(Enabled::Auto);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ahead::MOST_WAITING;

    /// P02: `doctor` names the version that is really built in.
    #[test]
    fn the_version_told_is_the_version_pinned() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("wasmtime = {{ version = \"={WASMTIME}\"")));
    }

    /// P02: without a pool the engine still comes up, and the choice is visible.
    #[test]
    fn the_choice_of_allocator_is_visible() {
        for pooling in [false, true] {
            let config = SandboxConfig { pooling: Some(pooling), slots: 2, ..SandboxConfig::default() };
            let (_, info) = open(&config).unwrap();
            assert_eq!(info.pooling, pooling);
            assert_eq!(info.instances, 2 * (1 + config.nested_depth) + MOST_WAITING);
        }
    }
}
