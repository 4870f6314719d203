#include "serving/draw_serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/xml.h"

namespace trireme {
namespace {

constexpr double kLeft = 120, kRight = 30, kTitle = 56;
constexpr double kColumn = 240, kGap = 24;
constexpr double kRow = 84, kBox = 46;
constexpr double kPlotHeight = 260, kPlotTop = 46, kPlotBottom = 88;
constexpr double kLegendColumn = 250;

// Colours of tiers, in their order; a sixth tier begins anew.
constexpr int kTierColors = 5;
constexpr std::string_view kServingStyle =
    "<style>\n"
    ".serving { font-family: ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace;"
    " font-size: 11px }\n"
    ".serving .page { fill: #ffffff } .serving text { fill: #24292f }\n"
    ".serving .title { font-size: 15px; font-weight: 700 } .serving .name { font-weight: 700 }\n"
    ".serving .middle { text-anchor: middle } .serving .end { text-anchor: end }\n"
    ".serving .faint { fill: #57606a } .serving .grid { stroke: #d0d7de; stroke-width: 0.7 }\n"
    ".serving .tier { fill: #f6f8fa } .serving .box { fill: #ffffff; stroke: #57606a }\n"
    ".serving .flow { fill: none; stroke: #8c959f; stroke-opacity: 0.55 }\n"
    ".serving .line { fill: none; stroke-width: 1.6 }\n"
    ".serving .plan { fill: none; stroke: #24292f; stroke-width: 4 }\n"
    ".serving .target { stroke: #a31515; stroke-dasharray: 4 3 } .serving .chosen { fill: #a31515 "
    "}\n"
    ".serving .t0 { stroke: #0b7285 } .serving .t1 { stroke: #9a6700 }\n"
    ".serving .t2 { stroke: #6f42c1 } .serving .t3 { stroke: #1a7f37 }\n"
    ".serving .t4 { stroke: #bf3989 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  .serving .page { fill: #14171c } .serving text { fill: #dfe3e8 }\n"
    "  .serving .faint { fill: #98a2ad } .serving .grid { stroke: #2d333b }\n"
    "  .serving .tier { fill: #1c2128 } .serving .box { fill: #14171c; stroke: #98a2ad }\n"
    "  .serving .flow { stroke: #6e7781 } .serving .plan { stroke: #dfe3e8 }\n"
    "  .serving .target { stroke: #ff9a9a } .serving .chosen { fill: #ff9a9a }\n"
    "  .serving .t0 { stroke: #66c7d8 } .serving .t1 { stroke: #e3b341 }\n"
    "  .serving .t2 { stroke: #b794f6 } .serving .t3 { stroke: #56d364 }\n"
    "  .serving .t4 { stroke: #f778ba }\n"
    "}\n</style>\n";

std::string text_in(double x, double y, std::string_view classes, const std::string& text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", classes, x, y,
                     xml_escaped(text));
}
std::string line_in(std::string_view classes, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", classes, x1,
      y1, x2, y2);
}
std::string rectangle_in(std::string_view classes, double x, double y, double width,
                         double height) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"4\"/>\n",
      classes, x, y, width, height);
}

// "0.5", "20": a round number of steps up to `most`.
double round_step(double most) {
  const double power = std::pow(10.0, std::floor(std::log10(most / 4.0)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (most / (power * factor) <= 6.0) return power * factor;
  }
  return power * 10.0;
}

class ServingPicture {
 public:
  ServingPicture(const ServedPipeline& pipeline, const Tiers& tiers, const ServingAnswer& answer)
      : pipeline_(pipeline), tiers_(tiers), answer_(answer) {}

  double width() const {
    return std::max(kLeft + double(tiers_.tiers.size()) * (kColumn + kGap) - kGap + kRight, 720.0);
  }
  double height() const { return plot_top() + kPlotHeight + kPlotBottom; }

  std::string draw() const {
    const Deployment& plan = answer_.plan.deployment;
    return text_in(kRight, 26, "title", pipeline_.name) +
           text_in(kRight, 44, "faint",
                   fmt::format("accuracy {:.4g} of at least {:g}; {:.4g} per hour: workers {:.4g}, "
                               "traffic {:.4g}",
                               answer_.plan.accuracy, answer_.target, plan.cost_per_hour(),
                               plan.workers_per_hour, plan.traffic_per_hour)) +
           columns() + flows() + boxes() + axes() + curves() + legend();
  }

 private:
  double column_x(size_t tier) const { return kLeft + double(tier) * (kColumn + kGap); }
  double row_y(size_t row) const { return kTitle + 34 + double(row) * kRow; }
  size_t num_rows() const { return pipeline_.operators.size() + 1; }  // sources come first
  double plot_top() const { return row_y(num_rows()) + kPlotTop; }

  // [tier] share up to and with it, of a source
  std::vector<double> done_of(const OperatorInput& input) const {
    if (!input.is_source) return answer_.plan.deployment.done[size_t(input.index)];
    const int from = tiers_.tier_named(pipeline_.sources[size_t(input.index)].tier);
    std::vector<double> done;
    for (size_t tier = 0; tier < tiers_.tiers.size(); ++tier) {
      done.push_back(int(tier) >= from ? 1.0 : 0.0);
    }
    return done;
  }

  std::string columns() const {
    std::string text;
    const double bottom = row_y(num_rows()) - kRow + kBox + 14;
    for (size_t tier = 0; tier < tiers_.tiers.size(); ++tier) {
      text += rectangle_in("tier", column_x(tier), kTitle + 4, kColumn, bottom - kTitle);
      text += text_in(column_x(tier) + kColumn / 2, kTitle + 20, "middle name",
                      tiers_.tiers[tier].name);
    }
    return text;
  }

  std::string flows() const {
    std::string text;
    for (size_t op = 0; op < pipeline_.operators.size(); ++op) {
      const std::vector<double>& to = answer_.plan.deployment.done[op];
      for (const OperatorInput& input : pipeline_.operators[op].inputs) {
        const std::vector<double> from = done_of(input);
        const size_t row = input.is_source ? 0 : size_t(input.index) + 1;
        for (size_t a = 0; a < from.size(); ++a) {
          for (size_t b = a; b < to.size(); ++b) {
            const double begin = std::max(a > 0 ? from[a - 1] : 0.0, b > 0 ? to[b - 1] : 0.0);
            const double share = std::min(from[a], to[b]) - begin;
            if (share <= 1e-9) continue;
            const double x1 = column_x(a) + kColumn / 2, y1 = row_y(row) + kBox;
            const double x2 = column_x(b) + kColumn / 2, y2 = row_y(op + 1);
            const double middle = (y1 + y2) / 2;
            text += fmt::format(
                "<path class=\"flow\" stroke-width=\"{:.1f}\" d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} "
                "{:.1f} {:.1f} {:.1f} {:.1f}\"/>\n",
                2.0 + 10.0 * share, x1, y1, x1, middle + 10, x2, middle - 10, x2, y2);
          }
        }
      }
    }
    return text;
  }

  std::string box(size_t tier, size_t row, const std::string& first,
                  const std::string& second) const {
    const double x = column_x(tier) + 10, y = row_y(row);
    return rectangle_in("box", x, y, kColumn - 20, kBox) + text_in(x + 8, y + 18, "", first) +
           text_in(x + 8, y + 35, "faint", second);
  }

  std::string boxes() const {
    std::string text = text_in(kRight, row_y(0) + 18, "name", "sources");
    for (size_t tier = 0; tier < tiers_.tiers.size(); ++tier) {
      std::string names;
      double items_per_s = 0.0;
      for (const Source& source : pipeline_.sources) {
        if (source.tier != tiers_.tiers[tier].name) continue;
        names += (names.empty() ? "" : ", ") + source.name;
        items_per_s += source.items_per_s;
      }
      if (!names.empty()) text += box(tier, 0, names, fmt::format("{:g} items/s", items_per_s));
    }
    const DeploymentProblem problem = deployment_problem(pipeline_, tiers_, answer_.plan.choice);
    for (size_t op = 0; op < pipeline_.operators.size(); ++op) {
      const Operator& one = pipeline_.operators[op];
      const ServedModel& model = one.models[size_t(answer_.plan.choice[op])];
      text += text_in(kRight, row_y(op + 1) + 18, "name", one.name);
      text += text_in(kRight, row_y(op + 1) + 35, "faint", model.name);
      for (size_t tier = 0; tier < tiers_.tiers.size(); ++tier) {
        std::string workers;
        for (size_t kind = 0; kind < tiers_.kinds.size(); ++kind) {
          const int64_t count = answer_.plan.deployment.workers[op][kind];
          if (count == 0 || tiers_.kinds[kind].tier != int(tier)) continue;
          workers +=
              fmt::format("{}{} {}", workers.empty() ? "" : ", ", count, tiers_.kinds[kind].name);
        }
        if (workers.empty()) continue;
        text += box(
            tier, op + 1, workers,
            fmt::format("{:.3g} items/s, busy {:.0f} %",
                        problem.works[op].items_per_s * answer_.plan.deployment.share_in(op, tier),
                        100.0 * answer_.plan.deployment.busy_share(problem, op, tier)));
      }
    }
    return text;
  }

  // ---- The curve ----
  double least_accuracy() const {
    double least = std::min(answer_.curve.plans.back().accuracy, answer_.target);
    if (answer_.target <= 0.0) least = answer_.curve.plans.back().accuracy;
    return std::max(0.0, least - 0.04);
  }
  double most_accuracy() const {
    return std::min(1.0, answer_.curve.plans.front().accuracy + 0.02);
  }
  // Above the most expensive plan, and above single tiers as far as that leaves the curve readable.
  double most_cost() const {
    const double most = answer_.curve.plans.front().deployment.cost_per_hour();
    double shown = most;
    for (const CostCurve& single : answer_.single_tiers) {
      if (single.plans.empty()) continue;
      shown = std::max(shown, single.plans.front().deployment.cost_per_hour());
    }
    return 1.08 * std::max(std::min(shown, 3.0 * most), 1e-9);
  }
  double plot_width() const { return width() - kLeft - kRight; }
  double x_of(double accuracy) const {
    return kLeft +
           plot_width() * (accuracy - least_accuracy()) / (most_accuracy() - least_accuracy());
  }
  double y_of(double cost) const {
    return plot_top() + kPlotHeight * (1.0 - std::min(cost / most_cost(), 1.0));
  }

  std::string axes() const {
    std::string text = text_in(kRight, plot_top() - 18, "name", "cost per hour by accuracy");
    const double bottom = plot_top() + kPlotHeight, right = kLeft + plot_width();
    const double step = round_step(most_cost());
    for (double cost = 0.0; cost <= most_cost(); cost += step) {
      text += line_in("grid", kLeft, y_of(cost), right, y_of(cost));
      text += text_in(kLeft - 8, y_of(cost) + 4, "end", fmt::format("{:.4g}", cost));
    }
    const double accuracy_step = round_step(most_accuracy() - least_accuracy());
    const double first = std::ceil(least_accuracy() / accuracy_step) * accuracy_step;
    for (double accuracy = first; accuracy <= most_accuracy(); accuracy += accuracy_step) {
      text += line_in("grid", x_of(accuracy), plot_top(), x_of(accuracy), bottom);
      text += text_in(x_of(accuracy), bottom + 16, "middle", fmt::format("{:.4g}", accuracy));
    }
    return text + text_in(kLeft + plot_width() / 2, bottom + 34, "middle", "accuracy, at least");
  }

  // What accuracies cost: constant up to the accuracy of a plan, from the least accurate one on.
  std::string steps_of(const CostCurve& curve, std::string_view classes) const {
    std::string path;
    double x = kLeft;
    for (size_t i = curve.plans.size(); i-- > 0;) {
      const double cost = curve.plans[i].deployment.cost_per_hour();
      const double end =
          x_of(std::clamp(curve.plans[i].accuracy, least_accuracy(), most_accuracy()));
      if (end <= x && !path.empty()) continue;
      path += fmt::format("{}{:.1f} {:.1f} H{:.1f} ", path.empty() ? "M" : "L", x, y_of(cost), end);
      x = end;
    }
    return path.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>\n", classes, path);
  }

  std::string curves() const {
    std::string text = steps_of(answer_.curve, "plan");
    // On top, so that a tier whose cost is that of the plan is seen.
    for (size_t tier = 0; tier < answer_.single_tiers.size(); ++tier) {
      text += steps_of(answer_.single_tiers[tier], fmt::format("line t{}", tier % kTierColors));
    }
    if (answer_.target > least_accuracy()) {
      const double x = x_of(answer_.target);
      text += line_in("target", x, plot_top(), x, plot_top() + kPlotHeight);
    }
    return text + fmt::format("<circle class=\"chosen\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n",
                              x_of(answer_.plan.accuracy),
                              y_of(answer_.plan.deployment.cost_per_hour()));
  }

  std::string legend() const {
    const double y = plot_top() + kPlotHeight + 54;
    std::string text;
    const auto entry = [&](size_t place, std::string_view classes, const std::string& name) {
      const size_t row = place / 3;
      const double x = kRight + kLegendColumn * double(place % 3), line_y = y + 17.0 * double(row);
      text += line_in(classes, x, line_y, x + 24, line_y) + text_in(x + 32, line_y + 4, "", name);
    };
    entry(0, "plan", "all tiers");
    for (size_t tier = 0; tier < answer_.single_tiers.size(); ++tier) {
      const bool can = !answer_.single_tiers[tier].plans.empty();
      entry(tier + 1, fmt::format("line t{}", tier % kTierColors),
            fmt::format("{} alone{}", tiers_.tiers[tier].name, can ? "" : ": impossible"));
    }
    return text;
  }

  const ServedPipeline& pipeline_;
  const Tiers& tiers_;
  const ServingAnswer& answer_;
};

}  // namespace

std::string draw_serving(const ServedPipeline& pipeline, const Tiers& tiers,
                         const ServingAnswer& answer) {
  const ServingPicture picture(pipeline, tiers, answer);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"serving\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
             picture.width(), picture.height()) +
         std::string(kServingStyle) + "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n" +
         picture.draw() + "</svg>\n";
}

}  // namespace trireme
