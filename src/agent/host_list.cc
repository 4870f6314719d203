#include "agent/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/file.h"
#include "comm/tcp/wire.h"

namespace trireme {
namespace {

constexpr int64_t kMostHostFileBytes = int64_t{1} << 20;

bool is_host_name(const std::string& name) {
  return !name.empty() && name.front() != '-' && name.size() <= 253 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '@';
         });
}

Result<int> slots_in(const std::string& text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error == std::errc() && end == text.data() + text.size() && slots >= 1 &&
      slots <= kLargestTcpWorld) {
    return slots;
  }
  return usage(
      fmt::format("\"{}\" is no number of slots: expected 1 to {}, one for each rank that "
                  "the host may run",
                  text, kLargestTcpWorld));
}

Result<NamedHost> host_in(const std::string& text) {
  const size_t colon = text.find(':');
  NamedHost host{text.substr(0, colon)};
  if (!is_host_name(host.name)) {
    return usage(fmt::format("\"{}\" is no name of a host: expected HOST or HOST:SLOTS", text));
  }
  if (colon != std::string::npos) {
    TRIREME_TRY(slots, slots_in(text.substr(colon + 1)));
    host.slots = slots;
  }
  return host;
}

Status check_different(const std::vector<NamedHost>& hosts) {
  std::set<std::string> names;
  for (const NamedHost& host : hosts) {
    if (names.insert(host.name).second) continue;
    return usage(fmt::format("host {} is named twice; give it more slots instead ({}:2)", host.name,
                             host.name));
  }
  return Done{};
}

// The host of a line of a file, or a host without a name if the line has none.
Result<NamedHost> host_in_line(const std::string& line) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string name;
  if (!(words >> name)) return NamedHost{};
  TRIREME_TRY(host, host_in(name));
  constexpr std::string_view kSlots = "slots=", kDomain = "domain=";
  for (std::string word; words >> word;) {
    if (word.starts_with(kSlots) && host.slots == 0) {
      TRIREME_TRY(number, slots_in(word.substr(kSlots.size())));
      host.slots = number;
    } else if (word.starts_with(kDomain) && host.domain.empty()) {
      host.domain = word.substr(kDomain.size());
      TRIREME_TRY_DONE(check_domain(host.domain));
    } else {
      return usage("expected HOST or HOST:SLOTS, then slots=SLOTS or domain=NAME");
    }
  }
  return host;
}

}  // namespace

Status check_domain(const std::string& name) {
  if (is_host_name(name)) return Done{};
  return usage(
      fmt::format("\"{}\" is no name of a failure domain: it has 1 to 253 letters, digits "
                  "and . - _ @, and begins with no -",
                  name));
}

Result<std::vector<NamedHost>> hosts_in(const std::string& list) {
  std::vector<NamedHost> hosts;
  std::istringstream entries(list + ",");
  for (std::string entry; std::getline(entries, entry, ',');) {
    TRIREME_TRY(host, host_in(entry));
    hosts.push_back(std::move(host));
  }
  TRIREME_TRY_DONE(check_different(hosts));
  return hosts;
}

Result<std::vector<NamedHost>> hosts_in_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return usage(fmt::format("--hostfile {}: no such file", path));
  }
  TRIREME_TRY(text, read_text_file(path, kMostHostFileBytes));
  std::vector<NamedHost> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    Result<NamedHost> host = host_in_line(line);
    if (host.ok() && !host->name.empty()) hosts.push_back(std::move(*host));
    const Status read = host.ok() ? check_different(hosts) : Status(host.error());
    if (!read.ok()) return with_context(read.error(), fmt::format("{}:{}", path, number));
  }
  if (hosts.empty()) return usage(path + " names no host; write one into each line");
  return hosts;
}

}  // namespace trireme
