#!/usr/bin/env bash
# Prints the software bill of materials of a built program in SPDX 2.3 tag-value form: the Debian
# packages of the libraries that it loads and of the headers that were compiled into it.
# Usage: tools/sbom.sh BUILD_DIR      (BUILD_DIR/trireme, built with ninja)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1
program=$build/trireme
export LC_ALL=C

# Prints the Debian packages of the libraries on standard input. A library without a package is an
# error.
packages_of() {
  local path real
  while IFS= read -r path; do
    real=$(realpath "$path")
    # dpkg may know a file below /usr by its path without /usr.
    { dpkg-query -S "$path" "$real" "${real#/usr}" "/usr$path" 2>/dev/null || true; } |
      sed -n '1s/: .*//p' | grep . ||
        { echo "sbom.sh: $path belongs to no Debian package" >&2; return 1; }
  done | sort -u
}

version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
checksum=$(sha256sum "$program" | cut -d' ' -f1)
uuid=${checksum:0:8}-${checksum:8:4}-8${checksum:13:3}-8${checksum:17:3}-${checksum:20:12}
commit_time() { git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s; }
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(commit_time)}" +%Y-%m-%dT%H:%M:%SZ)
system=$(. /etc/os-release && echo "$ID-$VERSION_ID")
vendor=${system%%-*}

linked=$(ldd "$program" | grep -oE '/[^ ]+' | sort -u | packages_of)
# Lists the headers of the program's objects. Those of tests and benchmarks are not included.
headers=$(ninja -C "$build" -t deps 2>/dev/null |
            awk '/^[^ ]/ {use = $1 ~ /^CMakeFiles\/trireme[a-z0-9_]*\.dir\//}
                 use && $1 ~ /^\/usr\// {print $1}' |
            sort -u | xargs -r dpkg-query -S | sed 's/: .*//' | sort -u)
[[ -n $headers ]] ||
  { echo "sbom.sh: $build has no record of the headers: build it with ninja" >&2; exit 1; }

cat <<EOF
SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: trireme-$version
DocumentNamespace: urn:uuid:$uuid
Creator: Tool: trireme-sbom-$version
Created: $created

PackageName: trireme
SPDXID: SPDXRef-trireme
PackageVersion: $version
PackageSupplier: Organization: Trireme developers
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageChecksum: SHA256: $checksum
PackageLicenseConcluded: Apache-2.0
PackageLicenseDeclared: Apache-2.0
PackageCopyrightText: 2026 Trireme developers
PrimaryPackagePurpose: APPLICATION
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-trireme
EOF

# Debian's copyright files have no field that a program could trust, so licences are not asserted.
package() {  # NAME RELATIONSHIP
  local name=${1%%:*} installed architecture id purl
  read -r installed architecture < <(dpkg-query -W -f='${Version} ${Architecture}\n' "$1")
  id=SPDXRef-${name//+/-plus}
  purl=pkg:deb/$vendor/${name//+/%2B}@$(sed 's/+/%2B/g; s/:/%3A/g' <<<"$installed")
  cat <<EOF

PackageName: $name
SPDXID: $id
PackageVersion: $installed
PackageSupplier: Organization: $vendor
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageLicenseConcluded: NOASSERTION
PackageLicenseDeclared: NOASSERTION
PackageCopyrightText: NOASSERTION
ExternalRef: PACKAGE-MANAGER purl $purl?arch=$architecture&distro=$system
Relationship: SPDXRef-trireme $2 $id
EOF
}
for name in $linked; do package "$name" DYNAMIC_LINK; done
for name in $(comm -13 <(echo "$linked") <(echo "$headers")); do package "$name" DEPENDS_ON; done
