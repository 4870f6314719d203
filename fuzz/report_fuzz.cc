#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "observe/report.h"
#include "scratch_folder.h"

namespace {

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string page_of(const ScratchFolder& folder, const trireme::Status& written) {
  if (!written.ok()) {
    if (written.error().message.empty()) std::abort();
    return "";
  }
  return read_plainly(folder / "report.html");
}

}  // namespace

// The files of a run folder, separated by zero bytes: a report is refused with a reason, or it is a
// page whose script ends where the page says, whatever the files contain.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ScratchFolder folder("report_fuzz");
  static const size_t sound_scripts = [] {
    write_plainly(folder / "metrics.jsonl", "");
    return count_of(page_of(folder, trireme::write_report(folder.path(), folder / "report.html")),
                    "</script");
  }();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name :
       {"metrics.jsonl", "summary.json", "ranks.json", "config.resolved.toml", "plan.json"}) {
    const size_t border = std::min(rest.find('\0'), rest.size());
    write_plainly(folder / name, rest.substr(0, border));
    rest.remove_prefix(std::min(border + 1, rest.size()));
  }
  const std::string page =
      page_of(folder, trireme::write_report(folder.path(), folder / "report.html"));
  if (!page.empty() && count_of(page, "</script") != sound_scripts) std::abort();
  page_of(folder,
          trireme::write_comparison({folder.path(), folder.path()}, folder / "report.html"));
  return 0;
}
