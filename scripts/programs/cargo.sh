# This workspace cloned and built on the mount, twice: the second time nothing is left to do.
needs cargo git || return 1
size=6G
use() {
  git -c safe.directory='*' clone -q "$repository" "$root/source"
  cd "$root/source"
  export CARGO_TARGET_DIR="$root/target" CARGO_PROFILE_DEV_DEBUG=0
  nice cargo build --quiet --offline --workspace
  touch -d '2030-01-01' "$aside"
  nice cargo build --offline --workspace 2>&1 | tee "$aside/again" | tail -n 1
  ! grep -q Compiling "$aside/again" || fail "built again"
  "$root/target/debug/uext4" --version
  echo "$(find "$root/target" | wc -l) names, $(du -sm "$root/target" | cut -f 1) MiB"
}
