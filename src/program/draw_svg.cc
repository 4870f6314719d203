#include "program/draw_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <set>

#include "base/xml.h"
#include "program/palette.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

constexpr size_t kMaxBoxes = 200'000;
constexpr double kRow = 26;
constexpr double kBox = 22;
constexpr double kLeft = 64;
constexpr double kTop = 72;
constexpr double kRight = 24;

struct LegendEntry {
  ActionKind kind;
  std::string_view text;
};
constexpr std::array kLegend = {
    LegendEntry{ActionKind::F, "F forward"},
    LegendEntry{ActionKind::B, "B input gradient"},
    LegendEntry{ActionKind::W, "W weight gradient"},
    LegendEntry{ActionKind::BW, "BW both gradients"},
    LegendEntry{ActionKind::FB, "F and BW overlapped"},
};

// Makes later chunks paler, so that a micro-batch can be followed through its chunks.
std::string pale_css(Color color, int chunk, int num_chunks) {
  const double pale = num_chunks > 1 ? 0.6 * std::max(chunk, 0) / (num_chunks - 1) : 0.0;
  const auto mix = [&](int channel) {
    return static_cast<int>(std::lround(channel + (255 - channel) * pale));
  };
  return css({mix(color.red), mix(color.green), mix(color.blue)});
}

// Returns 1, 2 or 5 times a power of ten that gives about `count` ticks.
double tick_step(double length, int count) {
  const double rough = length / count;
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * magnitude >= rough) return factor * magnitude;
  }
  return 10 * magnitude;
}

class Picture {
 public:
  Picture(std::ostream& out, const Schedule& schedule, const Timeline& timeline)
      : out_(out), schedule_(schedule), timeline_(timeline) {
    double shortest = INFINITY;
    for (int rank = 0; rank < schedule.num_ranks; ++rank) {
      for (size_t i = 0; i < timeline[rank].size(); ++i) {
        end_s_ = std::max(end_s_, timeline[rank][i].end_s);
        const double duration = timeline[rank][i].duration_s();
        if (duration > 0) shortest = std::min(shortest, duration);
        kinds_.insert(schedule.programs[rank][i].kind);
      }
    }
    if (end_s_ <= 0) end_s_ = 1;
    // Wide enough for a number in the shortest box, but within the limit of a page.
    const double wanted = std::isfinite(shortest) ? 18 * end_s_ / shortest : 0;
    scale_ = std::clamp(wanted, 720.0, 6000.0) / end_s_;
  }

  void draw(const SvgCaption& caption) {
    const double width = kLeft + end_s_ * scale_ + kRight;
    const double axis_y = kTop + kRow * schedule_.num_ranks + 6;
    const double height = axis_y + 40 + 18 * static_cast<double>(caption.lines.size());
    begin(width, height, caption.title);
    legend();
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) row(rank);
    axis(axis_y, caption.unit);
    double y = axis_y + 46;
    for (const std::string& line : caption.lines) {
      out_ << fmt::format("<text class=\"ink\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", kLeft, y,
                          xml_escaped(line));
      y += 18;
    }
    out_ << "</svg>\n";
  }

 private:
  void begin(double width, double height, const std::string& title) {
    out_ << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n",
        width, height);
    out_ << "<style>\n"
            ".page { fill: #ffffff } .lane { fill: #eef0f3 } .ink { fill: #24292f }\n"
            ".grid { stroke: #24292f; stroke-opacity: 0.25 }\n"
            ".op { stroke: #24292f; stroke-opacity: 0.55; stroke-width: 0.6 }\n"
            ".n { fill: #16191d; font-size: 11px; text-anchor: middle; pointer-events: none }\n"
            "@media (prefers-color-scheme: dark) {\n"
            "  .page { fill: #14171c } .lane { fill: #232830 } .ink { fill: #dfe3e8 }\n"
            "  .grid { stroke: #dfe3e8 }\n"
            "}\n</style>\n";
    out_ << "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    out_ << fmt::format(
        "<text class=\"ink\" x=\"{:.0f}\" y=\"24\" font-size=\"15\" "
        "font-weight=\"600\">{}</text>\n",
        kLeft, xml_escaped(title));
  }

  void legend() {
    double x = kLeft;
    const double y = 40;
    for (const LegendEntry& entry : kLegend) {
      if (!kinds_.contains(entry.kind)) continue;
      box(x, y, 22, 16, entry.kind, 0, 0, 1, "");
      out_ << fmt::format("<text class=\"ink\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x + 28,
                          y + 12.5, entry.text);
      x += 44 + 6.6 * static_cast<double>(entry.text.size());
    }
    if (schedule_.num_chunks == 1) return;
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      box(x, y, 22, 16, ActionKind::F, chunk, chunk, schedule_.num_chunks, "");
      x += 22;
    }
    const bool two_directions = schedule_.placement == StagePlacement::Bidir;
    out_ << fmt::format("<text class=\"ink\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x + 6,
                        y + 12.5,
                        two_directions ? "direction 0, 1" : "chunk 0, 1, ... of the rank");
  }

  // An overlapped pair is split into an upper half for the forward and a lower half for the
  // backward.
  void box(double x, double y, double width, double height, ActionKind kind, int chunk, int chunk_b,
           int num_chunks, std::string_view tooltip) {
    const auto rect = [&](double top, double h, Color color, int of_chunk) {
      out_ << fmt::format(
          "<rect class=\"op\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
          "fill=\"{}\">",
          x, top, width, h, pale_css(color, of_chunk, num_chunks));
      if (!tooltip.empty()) out_ << "<title>" << xml_escaped(tooltip) << "</title>";
      out_ << "</rect>\n";
    };
    if (kind != ActionKind::FB) {
      rect(y, height, color_of(kind), chunk);
      return;
    }
    rect(y, height / 2, color_of(ActionKind::F), chunk);
    rect(y + height / 2, height / 2, color_of(ActionKind::BW), chunk_b);
  }

  void row(int rank) {
    const double y = kTop + kRow * rank;
    out_ << fmt::format(
        "<text class=\"ink\" x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">rank {}</text>\n",
        kLeft - 8, y + 15, rank);
    out_ << fmt::format(
        "<rect class=\"lane\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\"/>\n",
        kLeft, y, end_s_ * scale_, kBox);
    for (size_t i = 0; i < schedule_.programs[rank].size(); ++i) {
      const Span& span = timeline_[rank][i];
      if (span.end_s > span.start_s) action(rank, y, schedule_.programs[rank][i], span);
    }
  }

  void action(int rank, double y, const Action& action, const Span& span) {
    const double x = kLeft + span.start_s * scale_;
    const double width = span.duration_s() * scale_;
    const std::string tooltip =
        fmt::format("{} on rank {}: {:.6g} to {:.6g}", to_string(action, schedule_.num_chunks),
                    rank, span.start_s, span.end_s);
    box(x, y, width, kBox, action.kind, action.chunk, action.chunk_b, schedule_.num_chunks,
        tooltip);
    const auto number = [&](int microbatch, double baseline, double size) {
      const std::string text = fmt::format("{}", microbatch);
      if (microbatch < 0 || width < size * 0.62 * static_cast<double>(text.size()) + 2) return;
      out_ << fmt::format(
          "<text class=\"n\" x=\"{:.2f}\" y=\"{:.2f}\" style=\"font-size:{:.0f}px\">{}</text>\n",
          x + width / 2, baseline, size, text);
    };
    if (action.kind == ActionKind::FB) {
      number(action.microbatch, y + 9.2, 9);
      number(action.microbatch_b, y + 20.2, 9);
    } else {
      number(action.microbatch, y + 15, 11);
    }
  }

  void axis(double y, const std::string& unit) {
    const double step = tick_step(end_s_, static_cast<int>(end_s_ * scale_ / 90));
    out_ << fmt::format(
        "<line class=\"grid\" x1=\"{0:.0f}\" x2=\"{1:.2f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n",
        kLeft, kLeft + end_s_ * scale_, y);
    for (int i = 0; i * step <= end_s_ * (1 + 1e-9); ++i) {
      const double x = kLeft + i * step * scale_;
      out_ << fmt::format(
          "<line class=\"grid\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
          "<text class=\"ink\" x=\"{0:.2f}\" y=\"{3:.1f}\" text-anchor=\"middle\" "
          "font-size=\"11\">{4:.6g}{5}</text>\n",
          x, y, y + 5, y + 18, i * step, xml_escaped(unit.empty() ? "" : " " + unit));
    }
  }

  std::ostream& out_;
  const Schedule& schedule_;
  const Timeline& timeline_;
  double end_s_ = 0;
  double scale_ = 1;  // pixels per second
  std::set<ActionKind> kinds_;
};

}  // namespace

Status draw_svg(std::ostream& out, const Schedule& schedule, const Timeline& timeline,
                const SvgCaption& caption) {
  size_t boxes = 0;
  for (const Program& program : schedule.programs) boxes += program.size();
  if (boxes > kMaxBoxes) {
    return Error{ErrorKind::Usage,
                 fmt::format("a picture of {} actions cannot be read (at most {}); use fewer "
                             "microbatches, or the trace format, which can be zoomed",
                             boxes, kMaxBoxes)};
  }
  Picture(out, schedule, timeline).draw(caption);
  return Done{};
}

}  // namespace trireme
