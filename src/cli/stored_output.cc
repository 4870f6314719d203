#include "cli/stored_output.h"

#include <fmt/format.h>

#include <ostream>
#include <sstream>

#include "base/units.h"
#include "cli/files_to_put.h"
#include "cli/open_store.h"
#include "cli/output_place.h"

namespace trireme {
namespace {

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
Status check_store(const std::string& url, OutputRules rules, const CommandIo& io) {
  TRIREME_TRY(open, open_store(url, {}, {.access = StoreAccess::Read}, io));
  if (open.url.path.empty()) return usage(url + ": names a store; add a name in it");
  if (rules.may_exist) return Done{};
  TRIREME_TRY(files, open.store->files(open.url.path));
  if (files.empty()) return Done{};
  const bool is_file = files.front().path == open.url.path;
  return usage(fmt::format("{} exists{}: choose another --out, or remove it: trireme store rm {}{}",
                           url, is_file ? "" : fmt::format(", a folder of {} files", files.size()),
                           is_file ? "" : "--recursive ", url));
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

// Runs the command, and keeps what it prints.
Result<int> run_captured(const std::function<Result<int>()>& run, CommandIo& io,
                         std::string& text) {
  const CapturedText captured(io.out);
  TRIREME_TRY(code, run());
  text = captured.text();
  return code;
}

}  // namespace

Result<int> with_stored_output(std::string& out, OutputRules rules, CommandIo& io,
                               const std::function<Result<int>()>& run) {
  if (!is_store_url(out)) return run();
  const std::string url = out;
  TRIREME_TRY(parsed, parse_store_url(url));
  TRIREME_TRY_DONE(check_store(url, rules, io));
  TRIREME_TRY(place, OutputPlace::take(parsed, rules.resumes, io.err));
  out = place->path();
  std::string text;
  const Result<int> code = run_captured(run, io, text);
  if (!code.ok() || *code != 0) {
    // Only what the same command resumes from is worth keeping.
    const bool is_refused = !code.ok() && code.error().kind == ErrorKind::Usage;
    if (!rules.resumes || is_refused) place->remove_result();
    io.out << text;
    return code;
  }
  TRIREME_TRY_DONE(place->set_complete());
  if (const Status stored = put(out, url, io); !stored.ok()) {
    return Error{stored.error().kind,
                 fmt::format("{}; the result is in {}, and is not in the store; put it there "
                             "with: trireme store put {} {}; the same command makes it again",
                             stored.error().message, out, out, url)};
  }
  place->remove_result();
  io.out << with_names(text, out, url);
  return code;
}

}  // namespace trireme
