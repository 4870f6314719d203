#include "chaos/live_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "agent/place_variables.h"
#include "agent/process_stat.h"
#include "agent/rank_link.h"

namespace trireme {
namespace {

// The words of a file of /proc, which end with 0.
std::vector<std::string> words_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

bool is_rank_of(const std::vector<std::string>& command, const std::string& run_dir) {
  if (command.size() < 4 || command[1] != "train") return false;
  const auto out = std::find(command.begin(), command.end(), "--out");
  return out != command.end() && out + 1 != command.end() && *(out + 1) == run_dir;
}

std::string value_in(const std::vector<std::string>& variables, const std::string& name) {
  for (const std::string& variable : variables) {
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  }
  return "";
}

}  // namespace

std::vector<LiveRank> live_ranks(const std::string& run_dir) {
  std::vector<LiveRank> ranks;
  std::error_code error;
  std::filesystem::directory_iterator it("/proc", error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    const int pid = std::atoi(it->path().filename().c_str());
    if (pid <= 0 || !is_rank_of(words_of(it->path() / "cmdline"), run_dir)) continue;
    const std::vector<std::string> variables = words_of(it->path() / "environ");
    const auto value = [&](const std::string& name) { return value_in(variables, name); };
    const Result<std::optional<TcpPlace>> place = place_in(value);
    const auto stat = stat_of_process(pid);
    const bool runs = stat && !stat->is_stopped() && stat->state != 'Z';
    const Result<std::optional<LinkDescriptors>> link = link_in(value(kLinkVariable));
    if (!place.ok() || !*place || !link.ok() || !*link || !runs) continue;
    ranks.push_back({.pid = pid,
                     .rank = (*place)->rank,
                     .memory_folder = value(kMemoryFolderVariable),
                     .pages = (*link)->pages});
  }
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return ranks;
}

}  // namespace trireme
