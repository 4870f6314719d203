#include "observe/report_page.h"

#include <fmt/format.h>

#include "program/palette.h"
#include "trireme_report_text.h"

namespace trireme {
namespace {

void fill(std::string& page, std::string_view place, std::string_view text) {
  page.replace(page.find(place), place.size(), text);
}

std::string palette_style() {
  std::string style = ":root {";
  for (const auto& [name, color] : report_palette()) {
    style += fmt::format(" --{}: {};", name, css(color));
  }
  return style + " }";
}

// Escapes "<", because "</script" or "<!--" inside a string would end the page's script.
std::string embeddable(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string report_page(std::string_view data) {
  std::string script;
  for (const std::string_view part :
       {embedded::kPageJs, embedded::kExpertsJs, embedded::kCurvesJs, embedded::kViewportJs,
        embedded::kTimelineJs, embedded::kMemoryJs, embedded::kTablesJs, embedded::kFailuresJs,
        embedded::kDiagnosisJs, embedded::kGoodputJs, embedded::kSpentJs, embedded::kPlanJs,
        embedded::kSweepJs, embedded::kMainJs}) {
    script += part;
  }
  std::string page(embedded::kPageHtml);
  fill(page, "@@PALETTE@@", palette_style());
  fill(page, "@@STYLE@@", embedded::kStyleCss);
  fill(page, "@@SCRIPT@@", script);
  fill(page, "@@DATA@@", embeddable(data));
  return page;
}

}  // namespace trireme
