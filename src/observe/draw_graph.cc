#include "observe/draw_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/xml.h"
#include "observe/graph_layout.h"
#include "program/palette.h"

namespace trireme {
namespace {

// Width of a letter and height of a line, in pixels. Boxes and labels have letters of one size.
constexpr double kLetter = 6.7;
constexpr double kLine = 14;
constexpr double kPadding = 7;
constexpr double kBetweenLabels = 10;
constexpr size_t kLabelLetters = 26;  // longer labels are broken between two texts
constexpr size_t kMostParams = 6;
constexpr double kMargin = 24;

using Lines = std::vector<std::string>;

// Joins texts with commas, in lines of at most kLabelLetters where the texts allow it.
void add_wrapped(Lines& lines, const Lines& texts) {
  std::string line;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!line.empty() && line.size() + 1 + texts[i].size() > kLabelLetters) {
      lines.push_back(std::exchange(line, ""));
    }
    line += (line.empty() ? "" : " ") + texts[i] + (i + 1 < texts.size() ? "," : "");
  }
  if (!line.empty()) lines.push_back(line);
}

double width_of(const Lines& lines) {
  size_t letters = 0;
  for (const std::string& line : lines) letters = std::max(letters, line.size());
  return kLetter * double(letters) + 2 * kPadding;
}

double height_of(const Lines& lines) { return kLine * double(lines.size()) + kPadding; }

// The name of a value, its extents, and how it lies.
struct Label {
  ValueId value = -1;
  Lines lines;
  size_t first_placement = 0;  // lines from here on say how it lies
};

// An op, or the input or output of the unit.
struct Box {
  std::string op_class;  // "op", "edge-of-unit"
  std::string fill;      // "" as the class says
  Lines lines;
  std::vector<Label> labels;
  std::vector<ValueId> inputs;
  bool is_idle = false;  // a redistribution over an axis of one rank

  double labels_width() const {
    double width = labels.empty() ? 0 : -kBetweenLabels;
    for (const Label& label : labels) width += width_of(label.lines) + kBetweenLabels;
    return width;
  }
  double width() const { return std::max(width_of(lines), labels_width()); }
  double height() const {
    double lowest = 0;
    for (const Label& label : labels) lowest = std::max(lowest, height_of(label.lines));
    return height_of(lines) + lowest;
  }
};

class GraphPicture {
 public:
  GraphPicture(const PassView& view, const ModelSpec& model, const StageShape& shape)
      : graph_(view.graph), labels_(view.graph, view.placements, model, shape) {
    boxes_.push_back({"end", "", {"input of the unit"}, {label_of(graph_.input)}, {}});
    for (const Op& op : graph_.ops) boxes_.push_back(box_of(op));
    boxes_.push_back({"end", "", {"output of the unit"}, {}, {graph_.output}});
    for (const Box& box : boxes_) layout_.boxes.push_back({box.width(), box.height()});
    for (size_t i = 0; i < boxes_.size(); ++i) add_edges(i);
    lay_out(layout_);
  }

  double width() const { return layout_.width; }
  double height() const { return layout_.height; }

  std::string drawn_at(double x, double y) const {
    std::string text = fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n", x, y);
    for (size_t i = 0; i < layout_.edges.size(); ++i) text += drawn_edge(i);
    for (size_t i = 0; i < boxes_.size(); ++i) text += drawn_box(i);
    return text + "</g>\n";
  }

 private:
  Label label_of(ValueId value) const {
    Label label{value, {graph_.values[size_t(value)].name}, 0};
    add_wrapped(label.lines, labels_.dims(value));
    label.first_placement = label.lines.size();
    add_wrapped(label.lines, labels_.placement_over_ranks(value));
    return label;
  }

  Box box_of(const Op& op) const {
    Box box{"op", css(color_of(op.kind)), {std::string(name_of(op.kind))}, {}, op.inputs};
    if (op.kind == OpKind::Redistribute) {
      box.lines.front() += fmt::format(" over {}", name_of(op.axis));
      box.lines.push_back(
          fmt::format("{} to {}", to_string(op.change.from), to_string(op.change.to)));
      if (op.in_pieces) box.lines.emplace_back("in pieces, beside a product");
      box.is_idle = labels_.moves_nothing(op);
      if (box.is_idle) box.lines.emplace_back("one rank: nothing moves");
    } else {
      box.lines.front() += " " + op.name;
      add_params(box.lines, op);
      if (op.slices != OpSlices{}) box.lines.push_back(to_string(op.slices));
      const std::string sums = labels_.gathered_sums(op);
      if (!sums.empty()) box.lines.push_back(sums);
    }
    for (const ValueId value : op.outputs) box.labels.push_back(label_of(value));
    return box;
  }

  void add_params(Lines& lines, const Op& op) const {
    const std::vector<ParamId> held = labels_.held_params(op);
    const size_t shown = held.size() > kMostParams ? kMostParams - 1 : held.size();
    for (size_t i = 0; i < shown; ++i) {
      lines.push_back(
          fmt::format("{}: {}", graph_.params[size_t(held[i])].name, labels_.param_shape(held[i])));
    }
    if (shown < held.size()) {
      lines.push_back(fmt::format("and {} more parameters", held.size() - shown));
    }
    if (held.size() < op.params.size()) {
      lines.push_back(fmt::format("{} on other ranks of ep", op.params.size() - held.size()));
    }
  }

  // The left of a box's labels, which stand side by side in its middle.
  double first_label(const Box& box) const { return (box.width() - box.labels_width()) / 2; }

  void add_edges(size_t to) {
    const std::vector<ValueId>& inputs = boxes_[to].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double at = boxes_[to].width() * double(i + 1) / double(inputs.size() + 1);
      for (size_t from = 0; from < to; ++from) {
        double left = first_label(boxes_[from]);
        for (const Label& label : boxes_[from].labels) {
          const double width = width_of(label.lines);
          if (label.value == inputs[i]) {
            layout_.edges.push_back({int(from), left + width / 2, int(to), at});
          }
          left += width + kBetweenLabels;
        }
      }
    }
  }

  std::string drawn_edge(size_t index) const {
    const LayoutEdge& edge = layout_.edges[index];
    const std::vector<LayoutPoint>& points = edge.points;
    constexpr double kArrow = 6;
    const LayoutPoint end = points.back();
    std::string path = fmt::format("M{:.1f} {:.1f}", points[0].x, points[0].y);
    for (size_t i = 1; i < points.size(); ++i) {
      LayoutPoint to = points[i];
      if (i + 1 == points.size()) break;  // the last pair is one point, the arrow's
      if (i + 2 == points.size()) to.y -= kArrow;
      if (i % 2 == 1) {
        path += fmt::format(" L{:.1f} {:.1f}", to.x, to.y);
        continue;
      }
      const double middle = (points[i - 1].y + to.y) / 2;
      path += fmt::format(" C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", points[i - 1].x, middle,
                          to.x, middle, to.x, to.y);
    }
    const Box& from = boxes_[size_t(edge.from)];
    const bool is_moved = is_redistribution(from) && !from.is_idle;
    return fmt::format(
        "<path class=\"edge{}\" d=\"{}\"/><path class=\"tip{}\" d=\"M{:.1f} {:.1f} l-4 -7 h8 "
        "z\"/>\n",
        is_moved ? " moved" : "", path, is_moved ? " moved" : "", end.x, end.y);
  }

  static bool is_redistribution(const Box& box) { return box.lines.front().starts_with("redist"); }

  std::string drawn_box(size_t index) const {
    const Box& box = boxes_[index];
    const LayoutBox& at = layout_.boxes[index];
    const double height = height_of(box.lines);
    const std::string fill = box.fill.empty() ? "" : fmt::format(" fill=\"{}\"", box.fill);
    std::string text = fmt::format(
        "<rect class=\"{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "rx=\"{}\"{}/>\n",
        box.op_class,
        box.is_idle              ? " moves idle"
        : is_redistribution(box) ? " moves"
                                 : "",
        at.x, at.y, at.width, height, is_redistribution(box) ? 12 : 3, fill);
    for (size_t i = 0; i < box.lines.size(); ++i) {
      text +=
          fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                      box.op_class == "op" ? (i == 0 ? "in name" : "in") : "ink name",
                      at.x + at.width / 2, at.y + kLine * double(i + 1), xml_escaped(box.lines[i]));
    }
    double left = at.x + first_label(box);
    for (const Label& label : box.labels) {
      const double width = width_of(label.lines);
      text += drawn_label(label, left, at.y + height, width,
                          std::max(height_of(label.lines), at.height - height));
      left += width + kBetweenLabels;
    }
    return text;
  }

  static std::string drawn_label(const Label& label, double x, double y, double width,
                                 double height) {
    std::string text = fmt::format(
        "<rect class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", x,
        y, width, height);
    for (size_t i = 0; i < label.lines.size(); ++i) {
      text +=
          fmt::format("<text class=\"ink{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                      i == 0                       ? " name"
                      : i >= label.first_placement ? " lies"
                                                   : "",
                      x + width / 2, y + kLine * double(i + 1) - 1, xml_escaped(label.lines[i]));
    }
    return text;
  }

  const Graph& graph_;
  GraphLabels labels_;
  std::vector<Box> boxes_;
  GraphLayout layout_;
};

constexpr std::string_view kStyle =
    "<style>\n"
    ".graph { font-family: ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace;"
    " font-size: 11px }\n"
    ".graph text { text-anchor: middle } .graph text.left { text-anchor: start }\n"
    ".graph .page { fill: #ffffff } .graph .ink { fill: #24292f } .graph .in { fill: #16191d }\n"
    ".graph .name { font-weight: 700 } .graph .lies { fill: #8a4b08 }\n"
    ".graph .title { font-size: 15px } .graph .label { fill: #eef0f3 }\n"
    ".graph .op { stroke: #24292f; stroke-opacity: 0.55; stroke-width: 0.8 }\n"
    ".graph .moves { stroke: #a31515; stroke-opacity: 1; stroke-width: 1.6 }\n"
    ".graph .idle { fill-opacity: 0.45; stroke-dasharray: 3 2 }\n"
    ".graph .end { fill: none; stroke: #24292f; stroke-dasharray: 3 2 }\n"
    ".graph .edge { fill: none; stroke: #57606a; stroke-width: 1.3 }\n"
    ".graph .tip { fill: #57606a } .graph .edge.moved { stroke: #c22f2f }\n"
    ".graph .tip.moved { fill: #c22f2f }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  .graph .page { fill: #14171c } .graph .ink { fill: #dfe3e8 }\n"
    "  .graph .label { fill: #232830 } .graph .lies { fill: #f0b26b }\n"
    "  .graph .idle { fill-opacity: 0.75 } .graph .op { stroke: #dfe3e8 } .graph .moves { stroke: "
    "#ff9a9a }\n"
    "  .graph .end { stroke: #dfe3e8 } .graph .edge { stroke: #98a2ad }\n"
    "  .graph .tip { fill: #98a2ad } .graph .edge.moved { stroke: #ef7f7f }\n"
    "  .graph .tip.moved { fill: #ef7f7f }\n"
    "}\n</style>\n";

std::string left_text(double x, double y, std::string_view classes, std::string_view text) {
  return fmt::format("<text class=\"left {}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", classes, x, y,
                     xml_escaped(text));
}

std::string svg_start(double width, double height) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"graph\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
             width, height) +
         std::string(kStyle) + "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
}

constexpr double kLegendWidth = 860;

// A colour for each family of ops, and how the label of a value is read.
std::string legend_at(double x, double y) {
  std::string text;
  double left = x;
  for (const OpKind kind : {OpKind::Linear, OpKind::Attention, OpKind::Norm, OpKind::Activation,
                            OpKind::Route, OpKind::Lookup, OpKind::Redistribute}) {
    const std::string_view family = family_of(kind);
    text += fmt::format(
        "<rect class=\"op{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"20\" height=\"13\" rx=\"3\" "
        "fill=\"{}\"/>\n",
        kind == OpKind::Redistribute ? " moves" : "", left, y - 10.5, css(color_of(kind)));
    text += left_text(left + 26, y + 0.5, "ink", family);
    left += 46 + kLetter * double(family.size());
  }
  return text +
         left_text(x, y + 20, "ink",
                   "In a box: op, name, parameters. Below it, each value that it writes: "
                   "name, extents of its axes,") +
         left_text(x, y + 34, "ink",
                   "and its placement over every mesh axis of several ranks. \"2 of 4\": this rank "
                   "has 2 of 4.");
}

}  // namespace

std::string draw_graph(const PassView& view, const ModelSpec& model, const StageShape& layout) {
  const GraphPicture picture(view, model, layout);
  return svg_start(picture.width() + 2 * kMargin, picture.height() + 2 * kMargin) +
         picture.drawn_at(kMargin, kMargin) + "</svg>\n";
}

std::string draw_units(std::span<const UnitPasses> units, const ModelSpec& model,
                       const StageShape& layout) {
  constexpr double kTop = 134, kTitle = 30, kPassTitle = 34, kBetweenUnits = 56, kBetween = 70;
  std::string text;
  double y = kTop, width = kLegendWidth;
  for (const UnitPasses& unit : units) {
    text += left_text(kMargin, y, "ink name title", title_of(unit));
    double x = kMargin, height = 0;
    for (const PassView& view : views_of(unit)) {
      if (!view.is_shown) continue;
      const GraphPicture picture(view, model, layout);
      text += left_text(x, y + kTitle, "ink name", view.name);
      text += left_text(x, y + kTitle + kLine, "ink", view.meaning);
      text += picture.drawn_at(x, y + kTitle + kPassTitle);
      x += std::max(picture.width(), kLetter * double(view.meaning.size())) + kBetween;
      height = std::max(height, picture.height());
    }
    width = std::max(width, x - kBetween + kMargin);
    y += kTitle + kPassTitle + height + kBetweenUnits;
  }
  return svg_start(width, y) +
         left_text(kMargin, 26, "ink name title", "Graphs of the units of a model") +
         left_text(kMargin, 44, "ink", layout_text(model, layout)) + legend_at(kMargin, 64) + text +
         "</svg>\n";
}

std::string graph_page(std::span<const UnitPasses> units, const ModelSpec& model,
                       const StageShape& layout, const std::string& name) {
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>{0}: graphs</title>\n<style>\n"
      ":root {{ color-scheme: light dark }}\n"
      "body {{ font: 15px/1.5 system-ui, sans-serif; margin: 24px; color: #24292f; background: "
      "#ffffff }}\n"
      "p {{ max-width: 46em }} figure {{ margin: 0 0 24px; overflow-x: auto }}\n"
      "@media (prefers-color-scheme: dark) {{ body {{ color: #dfe3e8; background: #14171c }} }}\n"
      "</style>\n</head>\n<body>\n<h1>{0}: the graph of every unit, before and after each "
      "pass</h1>\n<p>{1}</p>\n",
      xml_escaped(name), xml_escaped(layout_text(model, layout)));
  text +=
      "<p>A model is a list of units: the embedding, its layers and the head. The graph of a unit "
      "says what is computed and not where. The pass <b>stack</b> joins linear ops that read the "
      "same value. The pass <b>place</b> gives every value a placement over the mesh axes tp, cp "
      "and ep, and inserts a redistribution wherever an op needs a value in another placement than "
      "it has.</p>\n";
  text +=
      fmt::format("<figure>{}{}</svg></figure>\n", svg_start(kLegendWidth, 56), legend_at(4, 16));
  for (const UnitPasses& unit : units) {
    text += fmt::format("<h2>{}</h2>\n", xml_escaped(title_of(unit)));
    for (const PassView& view : views_of(unit)) {
      std::string meaning(view.meaning);
      meaning.front() = char(std::toupper(meaning.front()));
      text +=
          fmt::format("<h3>{}</h3>\n<p>{}{}.</p>\n", xml_escaped(view.name), xml_escaped(meaning),
                      view.changes_graph ? "" : "; it changes nothing here");
      if (!view.is_shown) continue;
      text += "<figure>" + draw_graph(view, model, layout) + "</figure>\n";
    }
  }
  return text + "</body>\n</html>\n";
}

}  // namespace trireme
