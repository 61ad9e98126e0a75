//! The engine as a whole, judged by e2fsck.

mod basic;
mod beside_kernel;
mod budget;
mod check;
mod crashed;
mod damage;
mod delalloc;
mod fast_commits;
mod fast_commits_hostile;
mod faults;
mod freeze;
mod full;
mod image;
mod journals;
mod old_formats;
mod old_inodes;
mod options;
mod orphans;
mod projects;
mod quota;
mod quota_limits;
mod races;
mod remount;
mod statfs;
mod threads;
mod worker;
