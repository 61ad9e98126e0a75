# npm installs a large tree from the registry and checks it; the next mount shows the same bytes.
needs npm node || return 1
size=3G
use() {
  export npm_config_cache="$root/cache" npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
  mkdir "$root/app"; cd "$root/app"
  echo '{"name":"app","version":"1.0.0","dependencies":{"react-scripts":"5.0.1"}}' >package.json
  timeout 3600 npm install --loglevel=error >/dev/null
  npm ls --all >/dev/null || fail "npm ls"
  node -e 'require("webpack"); require("@babel/core").transformSync("let a = 1", {presets: []})'
  find . -type f -exec sha256sum {} + | sort >"$aside/first"
  cd /; umount_image; clean; mount_image; cd "$root/app"
  find . -type f -exec sha256sum {} + | sort >"$aside/second"
  cmp "$aside/first" "$aside/second" || fail "the next mount shows something else"
  npm ls --all >/dev/null || fail "npm ls after the next mount"
  npm cache verify >/dev/null || fail "the cache of npm"
  echo "$(find node_modules | wc -l) names"
}
