//! Memory that this process may use: physical memory and cgroup limits.
//!
//! References: cgroups(7), `Documentation/admin-guide/cgroup-v2.rst` (`memory.max`).

use std::fs;

/// Assumed memory, in bytes, if the machine does not tell.
const UNKNOWN_BYTES: u64 = 1 << 30;

/// The usable memory divided by `parts`, at most `max_bytes`.
pub(crate) fn part_of_memory(parts: u64, max_bytes: u64) -> u64 {
    let machine = machine_bytes().unwrap_or(UNKNOWN_BYTES);
    let usable = group_bytes().map_or(machine, |group| group.min(machine));
    (usable / parts).min(max_bytes)
}

fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = total?.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// The lowest limit of the control groups of this process, in bytes.
fn group_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().flat_map(limits_of).min()
}

/// The limits for one line of `/proc/self/cgroup`: of the group and of its ancestors.
fn limits_of(line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let (root, name) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let above = std::path::Path::new(group).ancestors();
    above
        .filter_map(|group| {
            let within = group.strip_prefix("/").ok()?;
            let text =
                fs::read_to_string(std::path::Path::new(root).join(within).join(name)).ok()?;
            text.trim().parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_of_what_there_is_and_no_more_than_the_most() {
        let all = part_of_memory(1, u64::MAX);
        assert!(all >= 16 << 20, "{all}");
        assert!(machine_bytes().is_some_and(|machine| all <= machine));
        assert_eq!(part_of_memory(4, u64::MAX), all / 4);
        assert_eq!(part_of_memory(1, 4096), 4096);
    }

    #[test]
    fn groups_that_do_not_tell_set_no_limit() {
        for line in [
            "",
            "0::",
            "3:cpu:/here",
            "0::/no/such/group",
            "no line at all",
        ] {
            let limits = limits_of(line);
            let of_the_root = limits_of("0::/");
            assert!(
                limits.iter().all(|limit| of_the_root.contains(limit)),
                "{line}"
            );
        }
    }
}
