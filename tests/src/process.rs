//! What the kernel says about a running process.
//!
//! It owns reading `/proc`. It refuses other systems: there the functions fail, and a test that needs them
//! says so.
//!
//! **Invariant:** figures are the kernel's own, in the units that the names say.

use std::fs;

use crate::{Failure, Outcome};

/// The highest resident memory so far, in KiB.
pub fn peak_memory_kib(process: u32) -> Outcome<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|why| Failure::at(&path, why))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Failure::new(format!("{path} has no VmHWM; the process may have ended")))
}

/// Processor time of all threads so far, in the kernel's ticks of a hundredth of a second.
pub fn processor_ticks(process: u32) -> Outcome<u64> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).map_err(|why| Failure::at(&path, why))?;
    // The second field is the program's name in brackets, which may hold spaces.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    match (fields.next().flatten(), fields.next().flatten()) {
        (Some(user), Some(system)) => Ok(user + system),
        _ => Err(Failure::new(format!("{path} holds no times: `{stat}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_time() {
        let own = std::process::id();
        assert!(peak_memory_kib(own).unwrap() > 100);
        processor_ticks(own).unwrap();
        assert!(peak_memory_kib(u32::MAX).is_err() && processor_ticks(u32::MAX).is_err());
    }
}
