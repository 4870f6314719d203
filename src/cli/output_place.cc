#include "cli/output_place.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = "unfinished\n";
constexpr std::string_view kComplete = "complete\n";

void remove_empty_folders_above(const fs::path& path) {
  std::error_code ignored;
  for (fs::path above = path.parent_path(); !above.empty(); above = above.parent_path()) {
    if (fs::is_symlink(above, ignored) || !fs::remove(above, ignored)) break;
  }
}

}  // namespace

OutputPlace::OutputPlace(const StoreUrl& url)
    : path_((fs::path("outputs") / url.store / url.path).string()) {}

std::string OutputPlace::beside(const char* ending) const {
  const fs::path path(path_);
  return (path.parent_path() / ("." + path.filename().string() + ending)).string();
}

Result<std::unique_ptr<OutputPlace>> OutputPlace::take(const StoreUrl& url, bool resumes,
                                                       std::ostream& err) {
  std::unique_ptr<OutputPlace> place(new OutputPlace(url));
  TRIREME_TRY_DONE(make_folders_of(place->path_));
  Result<FileLock> lock = FileLock::take(place->beside(".lock"));
  if (!lock.ok()) {
    return Error{lock.error().kind,
                 fmt::format("{}; another command is making {}, and that one has to end first",
                             lock.error().message, place->path_)};
  }
  place->lock_.emplace(std::move(*lock));
  TRIREME_TRY_DONE(place->take_over(resumes, "store://" + url.store + "/" + url.path, err));
  return place;
}

Status OutputPlace::take_over(bool resumes, const std::string& url, std::ostream& err) {
  std::error_code ignored;
  const std::string mark = beside(".for-store");
  if (fs::exists(fs::symlink_status(path_, ignored))) {
    const Result<std::string> state = read_text_file(mark, int64_t(kUnfinished.size()));
    if (!state.ok()) {
      return usage(fmt::format(
          "{} exists, and no command for {} has made it: the result is made there before the store "
          "has it; move it away, or call the command in another folder",
          path_, url));
    }
    if (!resumes || *state != kUnfinished) {
      err << fmt::format("note: {} of an earlier command is not in the store; it is made again\n",
                         path_);
      remove_result();
    }
  }
  return write_file_atomically(mark, kUnfinished);
}

Status OutputPlace::set_complete() {
  return write_file_atomically(beside(".for-store"), kComplete);
}

void OutputPlace::remove_result() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

OutputPlace::~OutputPlace() {
  std::error_code ignored;
  const bool is_empty =
      fs::is_directory(fs::symlink_status(path_, ignored)) && fs::is_empty(path_, ignored);
  if (is_empty) fs::remove(path_, ignored);
  if (!fs::exists(fs::symlink_status(path_, ignored))) {
    fs::remove(beside(".for-store"), ignored);
  }
  lock_.reset();
  remove_empty_folders_above(path_);
}

}  // namespace trireme
