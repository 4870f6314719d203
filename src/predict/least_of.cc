#include "predict/least_of.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

using Point = std::vector<double>;

Point between(const Point& from, const Point& to, double share) {
  Point point(from.size());
  for (size_t i = 0; i < from.size(); ++i) point[i] = from[i] + share * (to[i] - from[i]);
  return point;
}

}  // namespace

std::vector<double> least_of(const std::function<double(const Point&)>& value, Point start,
                             int max_evaluations) {
  using Corner = std::pair<double, Point>;
  std::vector<Corner> corners = {{value(start), start}};
  for (size_t i = 0; i < start.size(); ++i) {
    Point corner = start;
    corner[i] *= 1.15;
    corners.push_back({value(corner), corner});
  }
  int evaluations = int(corners.size());
  const auto evaluated = [&](Point point) {
    ++evaluations;
    const double at = value(point);
    return Corner{at, std::move(point)};
  };
  while (evaluations < max_evaluations) {
    std::sort(corners.begin(), corners.end());
    Point center(start.size(), 0.0);
    for (size_t c = 0; c + 1 < corners.size(); ++c) {
      for (size_t i = 0; i < center.size(); ++i) {
        center[i] += corners[c].second[i] / double(corners.size() - 1);
      }
    }
    Corner& worst = corners.back();
    const Corner reflected = evaluated(between(worst.second, center, 2.0));
    if (reflected.first < corners.front().first) {
      worst = std::min(reflected, evaluated(between(worst.second, center, 3.0)));
    } else if (reflected.first < corners[corners.size() - 2].first) {
      worst = reflected;
    } else {
      const Corner inside = evaluated(between(worst.second, center, 0.5));
      if (inside.first < worst.first) {
        worst = inside;
        continue;
      }
      for (size_t c = 1; c < corners.size(); ++c) {
        corners[c] = evaluated(between(corners.front().second, corners[c].second, 0.5));
      }
    }
  }
  return std::min_element(corners.begin(), corners.end())->second;
}

}  // namespace trireme
