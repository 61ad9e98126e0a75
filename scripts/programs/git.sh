# Clone of this repository, checkout of commits through its history, gc, fsck.
needs git || return 1
size=1G
use() {
  export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
  export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
  git -c safe.directory='*' clone -q --no-local "$repository" "$root/clone"
  cd "$root/clone"
  local total commits
  total=$(git rev-list --count HEAD)
  commits=$(git rev-list HEAD | awk -v n="$total" 'NR % (int(n / 12) + 1) == 1')
  for commit in $commits $(git rev-parse HEAD); do
    git checkout -q "$commit"
    [ -z "$(git status --porcelain)" ] || fail "the tree of $commit differs"
    [ "$(git write-tree)" = "$(git rev-parse "$commit^{tree}")" ] || fail "the index of $commit"
  done
  git checkout -q -b work; echo more >>README.md; git commit -qam more
  git gc -q --aggressive --prune=now
  git fsck --full --strict 2>&1 | grep -v -e '^notice' -e '^dangling' || true
  git fsck --full --strict >/dev/null 2>&1 || fail "git fsck"
  git clone -q "$root/clone" "$root/second"
  diff -r -x .git "$root/clone" "$root/second"
  echo "$total commits, $(git ls-files | wc -l) files, $(echo "$commits" | wc -l) checkouts"
}
