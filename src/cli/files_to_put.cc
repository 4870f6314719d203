#include "cli/files_to_put.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A link in a folder must lead to a file in it. Others could lead anywhere, and files below a link
// to a folder would be left out without a word.
Status check_link(const fs::path& link, const fs::path& folder) {
  std::error_code error;
  const fs::path target = fs::canonical(link, error);
  const bool is_file = !error && fs::is_regular_file(target, error);
  const fs::path inside = target.lexically_relative(fs::canonical(folder, error));
  if (is_file && !error && !inside.empty() && *inside.begin() != "..") return Done{};
  return usage(
      fmt::format("{} is a link that does not lead to a file in {}; put a copy of what it leads to "
                  "in its place",
                  link.string(), folder.string()));
}

}  // namespace

Result<std::vector<FileToPut>> files_to_put(const std::string& from, const StoreUrl& to) {
  std::error_code error;
  if (!fs::exists(from, error)) return usage(from + ": there is no such file or folder");
  if (!fs::is_directory(from, error)) {
    if (to.path.empty()) return usage("name the file in the store: store://" + to.store + "/NAME");
    return std::vector<FileToPut>{{from, to.path}};
  }
  std::vector<FileToPut> files;
  for (fs::recursive_directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_symlink()) TRIREME_TRY_DONE(check_link(entry->path(), from));
    if (!entry->is_regular_file()) continue;
    const std::string inside = fs::path(entry->path()).lexically_relative(from).generic_string();
    files.push_back({entry->path().string(), to.path.empty() ? inside : to.path + "/" + inside});
  }
  if (error) return damaged(fmt::format("{}: cannot list: {}", from, error.message()));
  std::ranges::sort(files, {}, &FileToPut::path);
  for (const FileToPut& file : files) TRIREME_TRY_DONE(check_store_path(file.path));
  return files;
}

}  // namespace trireme
