#!/usr/bin/env bash
# The bill of materials has the fields that SPDX 2.3 asks for, and every library that the program
# loads: sbom_test.sh BUILD_DIR SOURCE_DIR
set -u
build=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
command -v dpkg-query >/dev/null || { echo "dpkg-query is not here: nothing is tested"; exit 0; }
sbom=$work/trireme.spdx
"$root/tools/sbom.sh" "$build" >"$sbom" || { fail "no bill of materials"; exit 1; }
"$root/tools/sbom.sh" "$build" | cmp - "$sbom" || fail "it differs when it is made again"

# Fields of the document, of every package and of every relationship.
awk '
  function bad(why) { print "FAILED: line " NR ": " why ": " $0; wrong = 1 }
  function end_package(  field) {
    if (!in_package) return
    for (field in needed) if (!(field in has)) bad("the package before this line lacks " field)
    if (!("ExternalRef" in has) && id != "SPDXRef-trireme") bad("no purl before this line")
  }
  BEGIN {
    hex4 = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"  # mawk has no counts in patterns
    hex16 = hex4 hex4 hex4 hex4
    two = "[0-9][0-9]"
    split("SPDXID PackageVersion PackageSupplier PackageDownloadLocation FilesAnalyzed " \
          "PackageLicenseConcluded PackageLicenseDeclared PackageCopyrightText", names, " ")
    for (i in names) needed[names[i]] = 1
    rule["SPDXVersion"] = "^SPDX-2\\.3$"
    rule["DataLicense"] = "^CC0-1\\.0$"
    rule["SPDXID"] = "^SPDXRef-[A-Za-z0-9.-]+$"
    rule["DocumentName"] = rule["PackageName"] = rule["PackageVersion"] = "^[^ ]+$"
    rule["DocumentNamespace"] = "^urn:uuid:" hex4 hex4 "-" hex4 "-" hex4 "-" hex4 "-" \
                                hex4 hex4 hex4 "$"
    rule["Creator"] = "^Tool: [^ ]+-[0-9.]+$"
    rule["Created"] = "^" two two "-" two "-" two "T" two ":" two ":" two "Z$"
    rule["PackageSupplier"] = "^Organization: .+$"
    rule["PackageDownloadLocation"] = "^NOASSERTION$"
    rule["FilesAnalyzed"] = "^false$"
    rule["PackageChecksum"] = "^SHA256: " hex16 hex16 hex16 hex16 "$"
    rule["PackageLicenseDeclared"] = "^(NOASSERTION|Apache-2\\.0)$"
    rule["PackageLicenseConcluded"] = rule["PackageLicenseDeclared"]
    rule["PackageCopyrightText"] = "^.+$"
    rule["PrimaryPackagePurpose"] = "^APPLICATION$"
    rule["ExternalRef"] = "^PACKAGE-MANAGER purl pkg:deb/[a-z]+/[a-z0-9.%B-]+@" \
                          "[A-Za-z0-9.%~-]+\\?arch=[a-z0-9]+&distro=[a-z]+-[a-z0-9.]+$"
    rule["Relationship"] = "^SPDXRef-[A-Za-z0-9.-]+ (DESCRIBES|DYNAMIC_LINK|DEPENDS_ON) " \
                           "SPDXRef-[A-Za-z0-9.-]+$"
  }
  $0 == "" { next }
  {
    tag = $0; sub(/:.*/, "", tag)
    value = $0; sub(/^[^:]*: /, "", value)
    if (!(tag in rule)) bad("an unknown tag")
    else if (value !~ rule[tag]) bad("a wrong value")
  }
  tag == "PackageName" { end_package(); in_package = 1; split("", has) }
  tag == "SPDXID" { if (value in ids) bad("used twice"); ids[value] = 1; id = value }
  { has[tag] = 1; if (!in_package) document[tag] = 1 }
  tag == "Relationship" {
    split(value, ends, " ")
    from[NR] = ends[1]
    to[NR] = ends[3]
    related[ends[3]] = 1
  }
  END {
    end_package()
    for (i in from) if (!(from[i] in ids) || !(to[i] in ids))
      bad("a relationship of what is not listed: " to[i])
    for (i in ids) if (i != "SPDXRef-DOCUMENT" && !(i in related))
      bad("a package without a relationship: " i)
    split("SPDXVersion DataLicense SPDXID DocumentName DocumentNamespace Creator Created",
          names, " ")
    for (i in names) if (!(names[i] in document)) bad("the document lacks " names[i])
    exit wrong
  }' "$sbom" || fail "a field"

# The libraries that the program loads, and those of which it only compiles headers.
while IFS= read -r library; do
  path=$(ldd "$build/trireme" | awk -v name="$library" '$1 == name {print $3}')
  package=$(dpkg-query -S "$path" "$(realpath "$path")" 2>/dev/null | sed -n '1s/:.*//p')
  grep -q "^PackageName: $package$" "$sbom" || fail "$library of $package is not listed"
done < <(readelf -dW "$build/trireme" |
         sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux')
grep -q '^PackageName: nlohmann-json3-dev$' "$sbom" || fail "a library of headers is not listed"
grep -qE '^PackageName: (libgtest-dev|googletest)$' "$sbom" && fail "the tests' library is listed"
checksum=$(sha256sum "$build/trireme" | cut -d' ' -f1)
[[ $(grep -c "^PackageChecksum: SHA256: $checksum" "$sbom") == 1 ]] ||
  fail "the checksum is not that of the program"

((failures == 0)) && echo "all good"
exit $((failures > 0))
