#include "observe/draw_roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "base/xml.h"
#include "observe/svg_text.h"
#include "program/palette.h"

namespace trireme {
namespace {

constexpr double kLeft = 86, kTop = 64, kWidth = 760, kHeight = 520;
constexpr double kListX = kLeft + kWidth + 28, kListLine = 17,
                 kListWidth = 246;  // without the names
constexpr double kBelow = 74;       // of the axis: its numbers, its name and the legend
constexpr double kMark = 6;         // half of a mark
constexpr double kDigit = 7;        // width

constexpr std::string_view kRoofStyle =
    "<style>\n"
    ".roof { font-family: ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace;"
    " font-size: 11px }\n"
    ".roof .page { fill: #ffffff } .roof text { fill: #24292f }\n"
    ".roof .row { white-space: pre } .roof .title { font-size: 15px; font-weight: 700 }\n"
    ".roof .middle { text-anchor: middle }\n"
    ".roof .end { text-anchor: end } .roof .faint { fill: #57606a }\n"
    ".roof .grid { stroke: #d0d7de; stroke-width: 0.7 }\n"
    ".roof .line { fill: none; stroke: #24292f; stroke-width: 1.8 }\n"
    ".roof .ridge { stroke: #a31515; stroke-width: 1; stroke-dasharray: 4 3 }\n"
    ".roof .mark { stroke: #24292f; stroke-width: 0.8 } .roof .lead { stroke: #8c959f }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  .roof .page { fill: #14171c } .roof text { fill: #dfe3e8 }\n"
    "  .roof .faint { fill: #98a2ad } .roof .grid { stroke: #2d333b }\n"
    "  .roof .line { stroke: #dfe3e8 } .roof .ridge { stroke: #ff9a9a }\n"
    "  .roof .mark { stroke: #dfe3e8 } .roof .lead { stroke: #6e7781 }\n"
    "}\n</style>\n";

// A logarithmic axis with a line at every power of ten.
struct LogAxis {
  double first = 0, last = 1;  // exponents
  double share(double value) const { return (std::log10(value) - first) / (last - first); }
  int first_line() const { return int(std::ceil(first)); }
  int last_line() const { return int(std::floor(last)); }
};

LogAxis axis_over(double least, double most) {
  return {std::log10(least) - 0.3, std::log10(most) + 0.3};
}

struct LabelBox {
  double x = 0, y = 0, width = 0, height = 0;
  bool overlaps(const LabelBox& other) const {
    return x < other.x + other.width && other.x < x + width && y < other.y + other.height &&
           other.y < y + height;
  }
};

std::string power_of_ten(int exponent) {
  return exponent >= 0 && exponent <= 3 ? fmt::format("{:.0f}", std::pow(10.0, exponent))
                                        : fmt::format("1e{}", exponent);
}

std::string line_of(std::string_view name, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", name, x1,
      y1, x2, y2);
}

// F is a circle, B a square, W a triangle.
std::string mark_at(double x, double y, const RoofPoint& point) {
  const std::string fill = css(color_of(point.kind));
  if (point.pass == 'F') {
    return fmt::format("<circle class=\"mark\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\">",
                       x, y, kMark - 1, fill);
  }
  if (point.pass == 'B') {
    return fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f} h{} v{} h-{} z\" fill=\"{}\">",
                       x - kMark + 1.5, y - kMark + 1.5, 2 * kMark - 3, 2 * kMark - 3,
                       2 * kMark - 3, fill);
  }
  return fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f} l{} {} h-{} z\" fill=\"{}\">", x,
                     y - kMark, kMark, 2 * kMark - 2, 2 * kMark, fill);
}

// "1-3 8" of 1, 2, 3 and 8.
std::string ranges_of(const std::vector<size_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : " ") + std::to_string(numbers[i]);
    if (end - i > 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string name_of_point(const RoofPoint& point) {
  return fmt::format("{} {} {}", point.unit, point.op, point.pass);
}

class RoofPicture {
 public:
  explicit RoofPicture(const Roofline& roof) : roof_(roof) {
    double least_x = roof.ridge(), most_x = roof.ridge(), least_y = roof.peak_flops;
    for (const RoofPoint& point : roof.points) {
      least_x = std::min(least_x, point.flops_per_byte());
      most_x = std::max(most_x, point.flops_per_byte());
      least_y = std::min(least_y, point.flops_per_s());
    }
    x_axis_ = axis_over(least_x, most_x);
    y_axis_ = axis_over(least_y, roof.peak_flops);
  }

  std::string axes() const {
    std::string text;
    for (int e = x_axis_.first_line(); e <= x_axis_.last_line(); ++e) {
      const double x = x_of(std::pow(10.0, e));
      text += line_of("grid", x, kTop, x, kTop + kHeight);
      text += svg_text(x, kTop + kHeight + 16, "middle", power_of_ten(e));
    }
    for (int e = y_axis_.first_line(); e <= y_axis_.last_line(); ++e) {
      const double y = y_of(std::pow(10.0, e));
      text += line_of("grid", kLeft, y, kLeft + kWidth, y);
      text += svg_text(kLeft - 8, y + 4, "end", power_of_ten(e));
    }
    return text + svg_text(kLeft + kWidth / 2, kTop + kHeight + 34, "middle", "FLOPs per byte") +
           fmt::format(
               "<text class=\"middle\" transform=\"translate(22 {:.1f}) "
               "rotate(-90)\">FLOP/s</text>\n",
               kTop + kHeight / 2);
  }

  // The slope of the bandwidth, the level of the peak, and the ridge between them.
  std::string roof() {
    const double left =
        std::max(std::pow(10.0, x_axis_.first), std::pow(10.0, y_axis_.first) / roof_.bytes_per_s);
    const double ridge_x = x_of(roof_.ridge()), peak_y = y_of(roof_.peak_flops);
    const std::string label = fmt::format("ridge {:.4g} FLOPs per byte", roof_.ridge());
    const double label_x = ridge_x + 6, label_y = kTop + kHeight - 8;
    taken_.push_back({label_x, label_y - 11, kDigit * double(label.size()), 14});
    const std::string peak = fmt::format("peak {}FLOP/s", format_count(roof_.peak_flops));
    const double peak_width = kDigit * double(peak.size());
    taken_.push_back({kLeft + kWidth - peak_width, peak_y - 20, peak_width, 16});
    keep_free_of_labels({x_of(left), y_of(left * roof_.bytes_per_s)}, {ridge_x, peak_y});
    keep_free_of_labels({ridge_x, peak_y}, {kLeft + kWidth, peak_y});
    keep_free_of_labels({ridge_x, peak_y}, {ridge_x, kTop + kHeight});
    return fmt::format("<path class=\"line\" d=\"M{:.1f} {:.1f} L{:.1f} {:.1f} H{:.1f}\"/>\n",
                       x_of(left), y_of(left * roof_.bytes_per_s), ridge_x, peak_y,
                       kLeft + kWidth) +
           line_of("ridge", ridge_x, peak_y, ridge_x, kTop + kHeight) +
           svg_text(label_x, label_y, "faint", label) +
           svg_text(kLeft + kWidth, peak_y - 8, "end", peak);
  }

  std::string points() {
    std::string text;
    for (const RoofPoint& point : roof_.points) {
      const double x = x_of(point.flops_per_byte()), y = y_of(point.flops_per_s());
      taken_.push_back({x - kMark, y - kMark, 2 * kMark, 2 * kMark});
      text += mark_at(x, y, point) +
              fmt::format("<title>{}: {:.3g} FLOPs per byte, {}FLOP/s, bound by {}</title></{}>\n",
                          xml_escaped(name_of_point(point)), point.flops_per_byte(),
                          format_count(point.flops_per_s()), name_of(point.bound),
                          point.pass == 'F' ? "circle" : "path");
    }
    // Points that lie on each other share one label, such as "3-5 8".
    std::map<std::pair<int, int>, std::vector<size_t>> labels;
    for (size_t i = 0; i < roof_.points.size(); ++i) {
      const RoofPoint& point = roof_.points[i];
      labels[{int(std::lround(x_of(point.flops_per_byte()) / kMark)),
              int(std::lround(y_of(point.flops_per_s()) / kMark))}]
          .push_back(i + 1);
    }
    for (const auto& [cell, numbers] : labels) {
      text += label_beside(cell.first * kMark, cell.second * kMark, ranges_of(numbers));
    }
    return text;
  }

  std::string list() const {
    const size_t width = name_columns();
    std::string text = svg_text(kListX, kTop, "faint row",
                                fmt::format("{:>3}  {:<{}} {:>9} {:>9}  {}", "", "op and pass",
                                            width, "FLOPs/B", "FLOP/s", "bound by"));
    for (size_t i = 0; i < roof_.points.size(); ++i) {
      const RoofPoint& point = roof_.points[i];
      text += svg_text(kListX, kTop + kListLine * double(i + 1), "row",
                       fmt::format("{:>3}  {:<{}} {:>9.3g} {:>9}  {}", i + 1, name_of_point(point),
                                   width, point.flops_per_byte(), format_count(point.flops_per_s()),
                                   name_of(point.bound)));
    }
    return text;
  }

  double width() const { return kListX + kListWidth + kDigit * double(name_columns()); }
  double height() const {
    return std::max(kTop + kHeight + kBelow,
                    kTop + kListLine * double(roof_.points.size() + 1) + 20);
  }

 private:
  // Returns the width of the names in the list, so that every name fits.
  size_t name_columns() const {
    size_t columns = 24;
    for (const RoofPoint& point : roof_.points) {
      columns = std::max(columns, name_of_point(point).size());
    }
    return columns;
  }
  double x_of(double flops_per_byte) const {
    return kLeft + kWidth * x_axis_.share(flops_per_byte);
  }
  double y_of(double flops_per_s) const {
    return kTop + kHeight * (1.0 - y_axis_.share(flops_per_s));
  }

  // No label is put on the line.
  void keep_free_of_labels(std::pair<double, double> from, std::pair<double, double> to) {
    constexpr int kBoxes = 200;
    for (int i = 0; i <= kBoxes; ++i) {
      const double share = double(i) / kBoxes;
      taken_.push_back({std::lerp(from.first, to.first, share) - 1,
                        std::lerp(from.second, to.second, share) - 1, 2, 2});
    }
  }

  // Puts a label where it covers nothing: close to its point, else farther away with a line.
  std::string label_beside(double x, double y, const std::string& label) {
    const double width = kDigit * double(label.size()), height = 11;
    for (int ring = 0; ring < 12; ++ring) {
      const double away = kMark + 3 + 9.0 * ring;
      for (int turn = 0; turn < 12; ++turn) {
        const double angle = (1.5 + turn) * std::acos(-1.0) / 6.0;
        const double middle_x = x + std::cos(angle) * (away + width / 2);
        const double middle_y = y + std::sin(angle) * (away + height / 2);
        const LabelBox box{middle_x - width / 2, middle_y - height / 2, width, height};
        const bool is_inside = box.x >= kLeft && box.x + width <= kLeft + kWidth && box.y >= kTop &&
                               box.y + height <= kTop + kHeight;
        const bool is_free = std::none_of(taken_.begin(), taken_.end(), [&](const LabelBox& other) {
          return box.overlaps(other);
        });
        if (!is_inside || !is_free) continue;
        taken_.push_back(box);
        return (ring > 0 ? line_of("lead", x, y, middle_x, middle_y) : "") +
               svg_text(middle_x, middle_y + 4, "middle", label);
      }
    }
    return svg_text(x + kMark, y - kMark, "", label);
  }

  const Roofline& roof_;
  LogAxis x_axis_, y_axis_;
  std::vector<LabelBox> taken_;
};

}  // namespace

std::string draw_roofline(const Roofline& roof, const std::string& title) {
  RoofPicture picture(roof);
  const double width = picture.width(), height = picture.height();
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"roof\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
      width, height);
  text += kRoofStyle;
  text += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
  text += svg_text(kLeft, 26, "title", fmt::format("{} on {}", title, roof.device));
  text += svg_text(kLeft, 44, "faint",
                   fmt::format("{}FLOP/s, {}B/s; every op of a layer and of the head, for one "
                               "micro-batch on one rank",
                               format_count(roof.peak_flops), format_count(roof.bytes_per_s)));
  text += picture.axes();
  text += picture.roof();  // before the points, whose labels it keeps away
  text += picture.points();
  text += picture.list();
  text += svg_text(kLeft, kTop + kHeight + 56, "faint",
                   "circle F: forward; square B: input gradient; triangle W: weight gradient");
  return text + "</svg>\n";
}

}  // namespace trireme
