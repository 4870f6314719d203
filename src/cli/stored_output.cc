#include "cli/stored_output.h"

#include <fmt/format.h>

#include <filesystem>
#include <ostream>
#include <sstream>

#include "base/file.h"
#include "base/units.h"
#include "cli/files_to_put.h"
#include "cli/open_store.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// While it lives, it takes what is written to a stream.
class CapturedText {
 public:
  explicit CapturedText(std::ostream& stream)
      : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~CapturedText() { stream_.rdbuf(before_); }
  CapturedText(const CapturedText&) = delete;
  CapturedText& operator=(const CapturedText&) = delete;

  std::string text() const { return text_.str(); }

 private:
  std::ostream& stream_;
  std::ostringstream text_;
  std::streambuf* const before_;
};

std::string with_names(std::string text, const std::string& local, const std::string& url) {
  for (size_t at = text.find(local); at != std::string::npos;
       at = text.find(local, at + url.size())) {
    text.replace(at, local.size(), url);
  }
  return text;
}

// Checks the name and the store first, so that no work is lost.
Status check_store(const std::string& url, OutputRule rule, const CommandIo& io) {
  TRIREME_TRY(open, open_store(url, {}, {.access = StoreAccess::Read}, io));
  if (open.url.path.empty()) return usage(url + ": names a store; add a name in it");
  if (rule == OutputRule::MayExist) return Done{};
  TRIREME_TRY(files, open.store->files(open.url.path));
  if (files.empty()) return Done{};
  return usage(
      fmt::format("{} exists: choose another --out, or remove it: trireme store rm "
                  "store://{}/{}",
                  url, open.url.store, files.front().path));
}

Status put(const std::string& local, const std::string& url, CommandIo& io) {
  TRIREME_TRY(open,
              open_store(url, {}, {.access = StoreAccess::Write, .lock_wait_s = kWriterLockS}, io));
  TRIREME_TRY(files, files_to_put(local, open.url));
  TRIREME_TRY(totals, put_files(*open.store, files));
  io.err << fmt::format("{}: {} files of {} are in the store\n", url, totals.num_files,
                        format_bytes(totals.bytes));
  if (totals.chunks_to_repair > 0) {
    io.err << fmt::format("{} chunks wait for repair: trireme store scrub {}\n",
                          totals.chunks_to_repair, open.url.store);
  }
  return Done{};
}

// Removes the result, and the folders above it that are empty then.
void remove_local(const fs::path& local) {
  std::error_code ignored;
  fs::remove_all(local, ignored);
  for (fs::path above = local.parent_path(); !above.empty(); above = above.parent_path()) {
    if (fs::is_symlink(above, ignored) || !fs::remove(above, ignored)) break;
  }
}

}  // namespace

Result<int> with_stored_output(std::string& out, OutputRule rule, CommandIo& io,
                               const std::function<Result<int>()>& run) {
  if (!is_store_url(out)) return run();
  const std::string url = out;
  TRIREME_TRY(place, parse_store_url(url));
  TRIREME_TRY_DONE(check_store(url, rule, io));
  out = (fs::path("outputs") / place.store / place.path).string();
  TRIREME_TRY_DONE(make_folders_of(out));
  std::string text;
  const auto run_captured = [&]() -> Result<int> {
    const CapturedText captured(io.out);
    TRIREME_TRY(code, run());
    text = captured.text();
    return code;
  };
  TRIREME_TRY(code, run_captured());
  if (code != 0) {
    io.out << text;
    return code;
  }
  if (const Status stored = put(out, url, io); !stored.ok()) {
    return Error{stored.error().kind,
                 fmt::format("{}; the result is in {}, and is not in the store; put it there "
                             "with: trireme store put {} {}",
                             stored.error().message, out, out, url)};
  }
  remove_local(out);
  io.out << with_names(text, out, url);
  return code;
}

}  // namespace trireme
