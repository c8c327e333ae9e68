#!/usr/bin/env bash
# make_deb.sh VERSION NATIVE [LIBRARIES] makes dist/hpu-compile-server_VERSION_amd64.deb from the
# server and the Synapse libraries in NATIVE. They are copied byte for byte, because those bytes are
# the build id that clients compare (recipe_store/signing/build_id.h). LIBRARIES is the folder of
# bundled libraries if NATIVE is that of a wheel, whose clients have another build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly version=$1 native=$2 libraries=${3:-}
readonly package=hpu-compile-server
stage=$(mktemp -d)
work=$(mktemp -d)
trap 'rm -rf "$stage" "$work"' EXIT
readonly home=$stage/usr/lib/$package

if [ -n "$libraries" ]; then
  # The server looks for them where they are in a wheel, three folders up.
  readonly program=$home/habana_frameworks/torch/_native
  mkdir -p "$home"
  cp -r "$libraries" "$home/hpu_backend.libs"
else
  readonly program=$home
fi
install -D -m 755 "$native/hpu_compile_server" "$program/hpu_compile_server"
install -m 644 "$native"/libSynapse.so "$native"/libSynapseCompiler.so "$program"
# Unit and scripts use this one path in all cases. The server finds its libraries by its real path.
[ "$program" = "$home" ] || ln -s habana_frameworks/torch/_native/hpu_compile_server "$home/hpu_compile_server"
# Programs of the C API look for headers and library here.
mkdir -p "$stage/usr/include/habanalabs" "$stage/usr/lib/habanalabs" "$stage/usr/sbin"
cp -r synapse/include/. "$stage/usr/include/habanalabs"
for library in libSynapse.so libSynapseCompiler.so; do
  ln -s "../${program#"$stage/usr/lib/"}/$library" "$stage/usr/lib/habanalabs/$library"
done
ln -s ../lib/$package/hpu_compile_server "$stage/usr/sbin/hpu_compile_server"
install -D -m 644 deployment/systemd/$package.service "$stage/lib/systemd/system/$package.service"
install -D -m 644 deployment/server.conf "$stage/etc/$package/server.conf"
mkdir -p "$stage/usr/share/doc/$package"
install -m 644 docs/cluster.md docs/operations.md docs/operations_cluster.md docs/reliability.md "$stage/usr/share/doc/$package"
install -D -m 644 -t "$stage/usr/share/doc/$package/prometheus" deployment/prometheus/alerts.yml deployment/prometheus/prometheus.yml
install -D -m 644 -t "$stage/usr/share/doc/$package/grafana" deployment/grafana/dashboard.json
find "$stage" -type d -exec chmod 755 {} +

mkdir -p dist
rm -f dist/${package}_*.deb
HPU_STAGE=$stage cpack --config deployment/debian/CPackConfig.cmake -D CPACK_PACKAGE_VERSION="$version" -B "$work"
mv "$work"/${package}_*.deb dist
dpkg-deb --info dist/${package}_*.deb control
dpkg-deb --contents dist/${package}_*.deb
