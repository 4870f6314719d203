#include "observe/draw_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/xml.h"
#include "observe/svg_text.h"

namespace trireme {
namespace {

constexpr double kPageMargin = 20, kPageWidth = 1240, kTextLine = 18, kDigitWidth = 7;
constexpr double kRanksHeight = 34;            // of the bar of all ranks
constexpr double kBarWidth = 150, kBar = 10;   // of times and memory
constexpr double kBoxHeight = 36, kOpGap = 6;  // of the ops
constexpr double kUnitWidth = 230;             // the name of a unit, left of its ops
constexpr size_t kMostNodeLines = 64;

// Light enough for dark text. Neighbouring stages differ in their grey; a colour means roles.
constexpr std::string_view kGreys[] = {"#d7dee6", "#b3bfcb"};
constexpr std::string_view kColors[] = {"#8ecae6", "#f4b183", "#a8d5a2", "#d3b4e8", "#f2d06b",
                                        "#f2a3b3", "#9fd8cf", "#c9c2a5", "#7fa3e0", "#e0876a"};

constexpr std::string_view kStagesStyle =
    "<style>\n"
    ".stages { font-family: ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace;"
    " font-size: 12px }\n"
    ".stages .page { fill: #ffffff } .stages text { fill: #24292f }\n"
    ".stages .title { font-size: 15px; font-weight: 700 } .stages .head { font-weight: 700 }\n"
    ".stages .faint { fill: #57606a } .stages .on { fill: #1c2128 }\n"
    ".stages .middle { text-anchor: middle } .stages .edge { stroke: #57606a; stroke-width: 0.8 }\n"
    ".stages .node { stroke: #24292f; stroke-width: 0.5 } .stages .rail { fill: #eaeef2 }\n"
    ".stages .used { fill: #6e7781 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  .stages .page { fill: #14171c } .stages text { fill: #dfe3e8 }\n"
    "  .stages .faint { fill: #98a2ad } .stages .on { fill: #1c2128 }\n"
    "  .stages .rail { fill: #2d333b } .stages .used { fill: #98a2ad }\n"
    "}\n</style>\n";

std::string box(double x, double y, double width, double height, std::string_view fill,
                const std::string& tip = "") {
  return fmt::format(
      "<rect class=\"edge\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "fill=\"{}\">{}</rect>\n",
      x, y, width, height, fill, tip.empty() ? "" : "<title>" + xml_escaped(tip) + "</title>");
}

// Shortens a text to what fits in `width`.
std::string cut(const std::string& text, double width) {
  const auto most = size_t(std::max(1.0, width / kDigitWidth));
  return text.size() <= most ? text : text.substr(0, most - 1) + "~";
}

class StagesDrawing {
 public:
  explicit StagesDrawing(const StagesPicture& picture) : picture_(picture) {
    for (const DrawnStage& stage : picture.stages) {
      slowest_ = std::max(slowest_, stage.seconds);
      for (const DrawnUnit& unit : stage.kinds) {
        for (const DrawnOp& op : unit.ops) colors_.try_emplace(op.roles, colors_.size());
      }
    }
  }

  std::string draw() {
    text_ += svg_text(kPageMargin, y_ += 16, "title", picture_.title);
    for (const std::string& line : picture_.lines) {
      text_ += svg_text(kPageMargin, y_ += kTextLine, "faint", line);
    }
    draw_ranks();
    for (size_t s = 0; s < picture_.stages.size(); ++s) draw_stage(s);
    draw_legend();
    const double height = y_ + kPageMargin, width = kPageWidth + 2 * kPageMargin;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"stages\" width=\"{:.0f}\" "
               "height=\"{:.0f}\" viewBox=\"0 0 {:.0f} {:.0f}\">\n",
               width, height, width, height) +
           std::string(kStagesStyle) + "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" +
           text_ + "</svg>\n";
  }

 private:
  static std::string_view grey_of_stage(size_t stage) { return kGreys[stage % std::size(kGreys)]; }
  std::string_view color_of_roles(const std::string& roles) const {
    return kColors[colors_.at(roles) % std::size(kColors)];
  }

  // All ranks from left to right, each stage in its colour, with a line between nodes.
  void draw_ranks() {
    y_ += kTextLine;
    const double y = y_, per_rank = kPageWidth / double(picture_.num_ranks);
    for (size_t s = 0; s < picture_.stages.size(); ++s) {
      const DrawnStage& stage = picture_.stages[s];
      const double x = kPageMargin + per_rank * stage.first_rank,
                   width = per_rank * stage.num_ranks;
      const int last = stage.first_rank + stage.num_ranks - 1;
      text_ += box(x, y, width, kRanksHeight, grey_of_stage(s),
                   fmt::format("stage {}: ranks {} to {}", s, stage.first_rank, last));
      text_ += svg_text(x + width / 2, y + kRanksHeight / 2 + 4, "on middle",
                        cut(width < 70 ? fmt::format("{}", s) : fmt::format("stage {}", s), width));
    }
    const std::vector<int64_t> nodes = picture_.nodes.first_ranks(picture_.num_ranks);
    for (size_t node = 1; nodes.size() <= kMostNodeLines && node < nodes.size(); ++node) {
      const double x = kPageMargin + per_rank * double(nodes[node]);
      text_ += fmt::format(
          "<line class=\"node\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x,
          y - 4, x, y + kRanksHeight + 4);
    }
    y_ += kRanksHeight + kTextLine;
    text_ +=
        svg_text(kPageMargin, y_, "faint",
                 fmt::format("ranks 0 to {}; a line separates nodes of {}", picture_.num_ranks - 1,
                             fmt::join(picture_.nodes.sizes_of_run(picture_.num_ranks), ", ")));
  }

  void draw_share(double x, const std::string& name, double share) {
    text_ += svg_text(x, y_, "faint", name);
    x += kDigitWidth * double(name.size()) + 8;
    text_ += fmt::format(
        "<rect class=\"rail\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/>\n"
        "<rect class=\"used\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n",
        x, y_ - kBar + 1, kBarWidth, kBar, x, y_ - kBar + 1,
        kBarWidth * std::clamp(share, 0.0, 1.0), kBar);
  }

  void draw_stage(size_t s) {
    const DrawnStage& stage = picture_.stages[s];
    y_ += kTextLine + 8;
    text_ += box(kPageMargin, y_ - 11, 12, 12, grey_of_stage(s));
    text_ += svg_text(kPageMargin + 20, y_, "head", fmt::format("stage {}: {}", s, stage.units));
    text_ += svg_text(kPageMargin + 20, y_ += kTextLine, "faint", stage.figures);
    y_ += kTextLine;
    draw_share(kPageMargin + 20, "time, of the slowest stage", stage.seconds / slowest_);
    draw_share(kPageMargin + 420, "memory of a rank", stage.memory_share);
    if (stage.is_like_before) {
      text_ += svg_text(kPageMargin + 720, y_, "faint", "roles as in the stage before");
      return;
    }
    y_ += 10;
    for (const DrawnUnit& unit : stage.kinds) draw_unit(unit);
  }

  // Boxes share the width by the length of their names.
  void draw_unit(const DrawnUnit& unit) {
    text_ += svg_text(kPageMargin + 20, y_ + 15, "", cut(unit.name, kUnitWidth - 30));
    text_ += svg_text(kPageMargin + 20, y_ + 30, "faint", cut(unit.settings, kUnitWidth - 30));
    double letters = 0;
    for (const DrawnOp& op : unit.ops) letters += letters_of(op);
    const double width = kPageWidth - kUnitWidth - kOpGap * double(unit.ops.size());
    double x = kPageMargin + kUnitWidth;
    for (const DrawnOp& op : unit.ops) {
      const double share = width * letters_of(op) / letters;
      text_ += box(x, y_, share, kBoxHeight, color_of_roles(op.roles), op.names + ": " + op.roles);
      text_ += svg_text(x + 6, y_ + 15, "on", cut(op.names, share - 10));
      text_ += svg_text(x + 6, y_ + 30, "on", cut(op.roles, share - 10));
      x += share + kOpGap;
    }
    y_ += kBoxHeight + kOpGap;
  }
  static double letters_of(const DrawnOp& op) {
    return double(std::max(op.names.size(), op.roles.size())) + 2;
  }

  void draw_legend() {
    y_ += kTextLine + 8;
    text_ +=
        svg_text(kPageMargin, y_, "head", "roles: what the ranks of a stage share out of an op");
    for (const auto& [roles, number] : colors_) {
      y_ += kTextLine;
      text_ += box(kPageMargin, y_ - 11, 12, 12, color_of_roles(roles));
      text_ += svg_text(kPageMargin + 20, y_, "", roles);
    }
  }

  const StagesPicture& picture_;
  std::map<std::string, size_t> colors_;  // [roles] number
  double slowest_ = 0.0;
  double y_ = kPageMargin;
  std::string text_;
};

}  // namespace

std::string draw_stages(const StagesPicture& picture) { return StagesDrawing(picture).draw(); }

}  // namespace trireme
