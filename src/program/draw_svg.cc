#include "program/draw_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <set>

#include "base/xml.h"
#include "program/palette.h"

namespace trireme {
namespace {

constexpr size_t kMaxBoxes = 200'000;
constexpr double kRow = 26;
constexpr double kBox = 22;
constexpr double kLeft = 64;
constexpr double kRight = 24;
constexpr double kHeading = 24;
constexpr double kLegendTop = 40;
constexpr double kLegendLine = 24;
constexpr double kLegendBox = 22;
constexpr double kTextSize = 12;
constexpr double kTitleSize = 15;
constexpr double kTickSize = 11;
constexpr double kNumberSize = 11;    // of a micro-batch; two of them fit above each other in a box
constexpr double kDigitHeight = 0.7;  // in sizes of its font
// Widths of a letter in sizes of its font, on average, as wide sans-serif fonts have them.
constexpr double kLetter = 0.55;
constexpr double kBoldLetter = 0.6;

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

// An entry of the legend: boxes of one kind of action, one box in the shade of each chunk.
struct LegendItem {
  ActionKind kind = ActionKind::F;
  int num_shades = 1;
  std::string text;

  double text_x() const { return kLegendBox * num_shades + 6; }
  double width() const { return text_x() + 16 + kTextSize * kLetter * double(text.size()); }
};

class Picture {
 public:
  Picture(std::ostream& out, std::span<const DrawnSchedule> schedules)
      : out_(out), schedules_(schedules) {
    double end_s = 0, shortest = INFINITY;
    for (const DrawnSchedule& drawn : schedules) {
      for (const std::vector<Span>& spans : drawn.timeline) {
        for (const Span& span : spans) {
          end_s = std::max(end_s, span.end_s);
          if (span.duration_s() > 0) shortest = std::min(shortest, span.duration_s());
        }
      }
    }
    if (end_s <= 0) end_s = 1;
    // Wide enough for a number in the shortest box, but within the limit of a page.
    const double wanted = std::isfinite(shortest) ? 18 * end_s / shortest : 0;
    scale_ = std::clamp(wanted, 720.0, 6000.0) / end_s;
    tick_s_ = tick_step(end_s, static_cast<int>(end_s * scale_ / 90));
    num_ticks_ = static_cast<int>(std::ceil(end_s / tick_s_ - 1e-9));
    axis_end_ = kLeft + num_ticks_ * tick_s_ * scale_;
    width_ = axis_end_ + kRight;
  }

  void draw(const SvgCaption& caption) {
    make_room(caption.title, kTitleSize * kBoldLetter);
    for (const std::string& line : caption.lines) make_room(line, kTextSize * kLetter);
    for (const DrawnSchedule& drawn : schedules_) {
      make_room(drawn.heading, kTextSize * kBoldLetter);
    }
    // The last number of the axis stands on both sides of its end.
    const double half =
        kTickSize * kLetter * double(tick_text(num_ticks_, caption.unit).size()) / 2;
    width_ = std::max(width_, std::ceil(axis_end_ + half));
    const std::vector<std::vector<LegendItem>> legend = lines_of(legend_items());
    const double top = kLegendTop + kLegendLine * double(legend.size()) + 8;
    double axis_y = top + 6;
    for (const DrawnSchedule& drawn : schedules_) axis_y += height_of(drawn);
    begin(axis_y + 40 + 18 * double(caption.lines.size()), caption.title);
    for (size_t i = 0; i < legend.size(); ++i) {
      legend_line(legend[i], kLegendTop + kLegendLine * double(i));
    }
    double y = top;
    for (const DrawnSchedule& drawn : schedules_) {
      rows(drawn, y);
      y += height_of(drawn);
    }
    axis(axis_y, caption.unit);
    y = axis_y + 46;
    for (const std::string& line : caption.lines) {
      text(kLeft, y, line);
      y += 18;
    }
    out_ << "</svg>\n";
  }

 private:
  // Widens the picture for a text that begins at kLeft.
  void make_room(const std::string& text, double letter) {
    width_ = std::max(width_, kLeft + letter * double(text.size()) + kRight);
  }

  static double height_of(const DrawnSchedule& drawn) {
    return kRow * drawn.schedule.num_ranks + (drawn.heading.empty() ? 0 : kHeading);
  }

  void text(double x, double y, const std::string& content, std::string_view attributes = "") {
    out_ << fmt::format("<text class=\"ink\" x=\"{:.0f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y,
                        attributes, xml_escaped(content));
  }

  void begin(double height, const std::string& title) {
    out_ << fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" font-family=\"system-ui, sans-serif\" font-size=\"{2:.0f}\">\n",
        width_, height, kTextSize);
    out_ << "<style>\n"
            ".page { fill: #ffffff } .lane { fill: #eef0f3 } .ink { fill: #24292f }\n"
            ".grid { stroke: #24292f; stroke-opacity: 0.25 }\n"
            ".op { stroke: #24292f; stroke-opacity: 0.55; stroke-width: 0.6 }\n"
            "@media (prefers-color-scheme: dark) {\n"
            "  .page { fill: #14171c } .lane { fill: #232830 } .ink { fill: #dfe3e8 }\n"
            "  .grid { stroke: #dfe3e8 }\n"
            "}\n";
    out_ << fmt::format(
        ".n {{ fill: #16191d; font-size: {}px; text-anchor: middle; pointer-events: none }}\n"
        "</style>\n",
        kNumberSize);
    out_ << "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    text(kLeft, 24, title, fmt::format(" font-size=\"{:.0f}\" font-weight=\"600\"", kTitleSize));
  }

  std::vector<LegendItem> legend_items() const {
    std::set<ActionKind> kinds;
    int num_chunks = 1;
    bool has_directions = false, has_chunks = false;
    for (const DrawnSchedule& drawn : schedules_) {
      for (const Program& program : drawn.schedule.programs) {
        for (const Action& action : program) kinds.insert(action.kind);
      }
      num_chunks = std::max(num_chunks, drawn.schedule.num_chunks);
      const bool is_bidir = drawn.schedule.placement == StagePlacement::Bidir;
      (is_bidir ? has_directions : has_chunks) |= drawn.schedule.num_chunks > 1;
    }
    std::vector<LegendItem> items;
    for (const LegendEntry& entry : kLegend) {
      if (kinds.contains(entry.kind)) items.push_back({entry.kind, 1, std::string(entry.text)});
    }
    if (num_chunks == 1) return items;
    const char* const shades = !has_directions ? "chunk 0, 1, ... of the rank"
                               : !has_chunks   ? "direction 0, 1"
                                               : "chunk 0, 1, ... of the rank, or direction 0, 1";
    items.push_back({ActionKind::F, num_chunks, shades});
    return items;
  }

  // Breaks the legend into lines that are no wider than the picture.
  std::vector<std::vector<LegendItem>> lines_of(std::vector<LegendItem> items) const {
    std::vector<std::vector<LegendItem>> lines;
    double end = INFINITY;  // right end of the last line in pixels
    for (LegendItem& item : items) {
      if (end + item.width() > width_) {
        lines.emplace_back();
        end = kLeft;
      }
      end += item.width();
      lines.back().push_back(std::move(item));
    }
    return lines;
  }

  void legend_line(const std::vector<LegendItem>& items, double y) {
    double x = kLeft;
    for (const LegendItem& item : items) {
      for (int shade = 0; shade < item.num_shades; ++shade) {
        box(x + kLegendBox * shade, y, kLegendBox, 16, item.kind, shade, shade, item.num_shades,
            "");
      }
      text(x + item.text_x(), y + 12.5, item.text);
      x += item.width();
    }
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

  void rows(const DrawnSchedule& drawn, double y) {
    if (!drawn.heading.empty()) {
      text(kLeft, y + 16, drawn.heading, " font-weight=\"600\"");
      y += kHeading;
    }
    double end_s = 0;
    for (const std::vector<Span>& spans : drawn.timeline) {
      for (const Span& span : spans) end_s = std::max(end_s, span.end_s);
    }
    for (int rank = 0; rank < drawn.schedule.num_ranks; ++rank, y += kRow) {
      text(kLeft - 8, y + 15, fmt::format("rank {}", rank), " text-anchor=\"end\"");
      out_ << fmt::format(
          "<rect class=\"lane\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\"/>\n",
          kLeft, y, end_s * scale_, kBox);
      const Program& program = drawn.schedule.programs[size_t(rank)];
      for (size_t i = 0; i < program.size(); ++i) {
        const Span& span = drawn.timeline[size_t(rank)][i];
        if (span.end_s > span.start_s) action(drawn.schedule, rank, y, program[i], span);
      }
    }
  }

  void action(const Schedule& schedule, int rank, double y, const Action& action,
              const Span& span) {
    const double x = kLeft + span.start_s * scale_;
    const double width = span.duration_s() * scale_;
    const std::string tooltip =
        fmt::format("{} on rank {}: {:.6g} to {:.6g}", to_string(action, schedule.num_chunks), rank,
                    span.start_s, span.end_s);
    box(x, y, width, kBox, action.kind, action.chunk, action.chunk_b, schedule.num_chunks, tooltip);
    const auto number = [&](int microbatch, double middle) {
      const std::string text = fmt::format("{}", microbatch);
      if (microbatch < 0 || width < kNumberSize * 0.62 * double(text.size()) + 2) return;
      out_ << fmt::format("<text class=\"n\" x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n", x + width / 2,
                          middle + kDigitHeight * kNumberSize / 2, text);
    };
    if (action.kind == ActionKind::FB) {
      number(action.microbatch, y + kBox / 4);
      number(action.microbatch_b, y + kBox * 3 / 4);
    } else {
      number(action.microbatch, y + kBox / 2);
    }
  }

  void axis(double y, const std::string& unit) {
    out_ << fmt::format(
        "<line class=\"grid\" x1=\"{0:.0f}\" x2=\"{1:.2f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n",
        kLeft, axis_end_, y);
    for (int i = 0; i <= num_ticks_; ++i) {
      const double x = kLeft + i * tick_s_ * scale_;
      out_ << fmt::format(
          "<line class=\"grid\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
          "<text class=\"ink\" x=\"{0:.2f}\" y=\"{3:.1f}\" text-anchor=\"middle\" "
          "font-size=\"{4}\">{5}</text>\n",
          x, y, y + 5, y + 18, kTickSize, xml_escaped(tick_text(i, unit)));
    }
  }

  std::string tick_text(int tick, const std::string& unit) const {
    return fmt::format("{:.6g}{}{}", tick * tick_s_, unit.empty() ? "" : " ", unit);
  }

  std::ostream& out_;
  std::span<const DrawnSchedule> schedules_;
  double scale_ = 1;  // pixels per second
  double axis_end_ = 0, width_ = 0;
  double tick_s_ = 1;  // seconds between two numbers of the axis
  int num_ticks_ = 1;
};

}  // namespace

Status draw_svg(std::ostream& out, std::span<const DrawnSchedule> schedules,
                const SvgCaption& caption) {
  size_t boxes = 0;
  for (const DrawnSchedule& drawn : schedules) {
    for (const Program& program : drawn.schedule.programs) boxes += program.size();
  }
  if (boxes > kMaxBoxes) {
    return Error{ErrorKind::Usage,
                 fmt::format("a picture of {} actions cannot be read (at most {}); use fewer "
                             "microbatches, or the trace format, which can be zoomed",
                             boxes, kMaxBoxes)};
  }
  Picture(out, schedules).draw(caption);
  return Done{};
}

}  // namespace trireme
