#include "base/sealed_json.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr std::string_view kSealKey = ",\n\"checksum\":\"";
constexpr std::string_view kSealEnd = "\"}\n";
constexpr size_t kSealDigits = 16;
constexpr size_t kSealBytes = kSealKey.size() + kSealDigits + kSealEnd.size();

}  // namespace

std::string seal_json(std::string_view object) {
  const size_t brace = object.find_last_not_of(" \t\r\n");
  TRIREME_CHECK(brace != std::string_view::npos && object[brace] == '}',
                "only a JSON object can be sealed");
  std::string text(object.substr(0, brace));
  const std::string checksum = hex64(hash64(text));
  return text.append(kSealKey).append(checksum).append(kSealEnd);
}

Status check_seal(std::string_view sealed) {
  if (sealed.size() < kSealBytes || !sealed.ends_with(kSealEnd) ||
      sealed.substr(sealed.size() - kSealBytes, kSealKey.size()) != kSealKey) {
    return damaged("does not end with its checksum: it is truncated or was changed");
  }
  const std::string_view stored =
      sealed.substr(sealed.size() - kSealEnd.size() - kSealDigits, kSealDigits);
  const std::string computed = hex64(hash64(sealed.substr(0, sealed.size() - kSealBytes)));
  if (stored == computed) return Done{};
  return damaged(
      fmt::format("has checksum {}, its last line says {}: it was changed", computed, stored));
}

}  // namespace trireme
