#include "store/store_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

constexpr std::string_view kScheme = "store://";
constexpr size_t kMostPathBytes = 1024;
constexpr size_t kMostNameBytes = 255;
constexpr size_t kMostStoreNameBytes = 64;

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; }

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

}  // namespace

Status check_store_path(std::string_view path) {
  const auto refuse = [&](const std::string& why) {
    return usage(
        fmt::format("\"{}\" is no name of a file in a store: {}", path.substr(0, 80), why));
  };
  if (path.size() > kMostPathBytes) {
    return refuse(fmt::format("it has more than {} bytes", kMostPathBytes));
  }
  if (std::ranges::any_of(path, is_control)) {
    return refuse("it has a backslash or a control character");
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name.empty()) return refuse("a name between slashes is empty");
    if (name == "." || name == "..") return refuse("it has . or .. between slashes");
    if (name.size() > kMostNameBytes) {
      return refuse(fmt::format("a name has more than {} bytes", kMostNameBytes));
    }
    begin = end + 1;
  }
  return Done{};
}

Status check_store_name(std::string_view name) {
  const bool is_valid = !name.empty() && name.size() <= kMostStoreNameBytes &&
                        std::ranges::all_of(name, is_name_char) &&
                        std::isalnum(static_cast<unsigned char>(name[0])) != 0;
  if (is_valid) return Done{};
  return usage(fmt::format(
      "\"{}\" is no name of a store: use at most {} letters, digits, -, _ and ., beginning with a "
      "letter or a digit",
      name.substr(0, 80), kMostStoreNameBytes));
}

bool is_store_url(std::string_view text) { return text.starts_with(kScheme); }

Result<StoreUrl> parse_store_url(std::string_view text) {
  if (!is_store_url(text)) {
    return usage(fmt::format("\"{}\" is not in a store: write store://NAME/PATH", text));
  }
  text.remove_prefix(kScheme.size());
  const size_t slash = std::min(text.find('/'), text.size());
  StoreUrl url{std::string(text.substr(0, slash)), ""};
  TRIREME_TRY_DONE(check_store_name(url.store));
  if (slash + 1 < text.size()) {
    url.path = text.substr(slash + 1);
    TRIREME_TRY_DONE(check_store_path(url.path));
  }
  return url;
}

}  // namespace trireme
