// SPDX-License-Identifier: Apache-2.0
#include "eval/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

#include "picture/paint.h"
#include "picture/text.h"

namespace fovea::eval {
namespace {

constexpr int kMargin = 40;
constexpr int kGap = 28;
constexpr int kAxisLeft = 62;    // figures of accuracy
constexpr int kAxisBelow = 34;   // figures of tokens or MiB
constexpr int kPanelTitle = 36;  // name of the family
constexpr int kTitleSize = 30;
constexpr int kTextSize = 18;
constexpr int kSmallSize = 16;
constexpr int kApartPx = 3;  // arms with the same cost stand side by side

// A straight line with smooth edges.
void draw_line(Image& image, Point from, Point to, double thick_px, Rgb colour, int share = 255) {
  const double reach = thick_px / 2 + 1;
  const double dx = to.x_px - from.x_px;
  const double dy = to.y_px - from.y_px;
  const double length_squared = std::max(dx * dx + dy * dy, 1e-9);
  const auto low = [&](double a, double b) { return static_cast<int>(std::min(a, b) - reach); };
  const auto high = [&](double a, double b) {
    return static_cast<int>(std::max(a, b) + reach) + 1;
  };
  const int left = low(from.x_px, to.x_px);
  const int top = low(from.y_px, to.y_px);
  const Rect area = intersect(
      {left, top, high(from.x_px, to.x_px) - left, high(from.y_px, to.y_px) - top}, bounds(image));
  for (int y = area.y_px; y < area.bottom_px(); ++y)
    for (int x = area.x_px; x < area.right_px(); ++x) {
      const double px = x + 0.5 - from.x_px;
      const double py = y + 0.5 - from.y_px;
      const double along = std::clamp((px * dx + py * dy) / length_squared, 0.0, 1.0);
      const double distance = std::hypot(px - along * dx, py - along * dy);
      const double within = std::clamp(thick_px / 2 - distance + 0.5, 0.0, 1.0);
      if (within > 0)
        set_pixel(image, x, y,
                  mix(pixel(image, x, y), colour, static_cast<int>(std::lround(share * within))));
    }
}

// An arm has the same colour in every plot: hues around the circle, random gray, full white.
Rgb arm_colour(std::string_view arm) {
  if (arm == "full") return {245, 246, 248};
  if (arm == "random") return {140, 146, 156};
  const auto kinds = arm_kinds();
  const auto place = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const ArmKind& kind) { return kind.name == arm; }) -
                     kinds.begin();
  // Steps of the golden angle: no two are alike, however many arms there are.
  const double hue = 2 * std::numbers::pi * static_cast<double>(place) * (2 - std::numbers::phi);
  return rgb_of({0.76, 0.15 * std::cos(hue), 0.15 * std::sin(hue)});
}

std::u32string text32(const std::string& text) { return decode_utf8(text); }

// What accuracy is drawn over, on a logarithmic axis, the same in all panels.
struct CostAxis {
  PlotOver over = PlotOver::kTokens;
  double low = 1;
  double high = 2;

  CostAxis(const Report& report, PlotOver what) : over(what) {
    double least = 1e18;
    double most = 1;
    for (const Row& row : report.rows) {
      const auto cost = cost_of(row);
      if (!cost) continue;
      least = std::min(least, *cost);
      most = std::max(most, *cost);
    }
    low = std::log2(std::max(1.0, std::min(least, most))) - 0.3;
    high = std::log2(most) + 0.3;
  }
  std::optional<double> cost_of(const Row& row) const {
    if (row.n == 0) return std::nullopt;
    return over == PlotOver::kTokens ? row.tokens : row.kv_bytes;
  }
  double place(double cost) const { return (std::log2(std::max(1.0, cost)) - low) / (high - low); }
  // Bytes are named in MiB.
  std::string label(int power) const {
    return fmt::format("{:g}", std::exp2(over == PlotOver::kTokens ? power : power - 20));
  }
};

class Panel {
 public:
  Panel(Image& image, Font& font, const Rect& rect, const CostAxis& axis)
      : image_(image), font_(font), axis_(axis) {
    area_ = {rect.x_px + kAxisLeft, rect.y_px + kPanelTitle, rect.width_px - kAxisLeft,
             rect.height_px - kPanelTitle - kAxisBelow};
  }

  void draw_frame(const std::string& title, const Chance& chance) {
    font_.draw(image_, area_.x_px, area_.y_px - kPanelTitle, text32(title), kTextSize + 2,
               ink::kText);
    fill(image_, area_, ink::kRaised);
    for (int percent = 0; percent <= 100; percent += 20) {
      const double y = y_of(percent / 100.0);
      draw_line(image_, {left(), y}, {right(), y}, 1, ink::kRule);
      const std::u32string label = text32(std::to_string(percent));
      font_.draw(image_, area_.x_px - 10 - font_.width_px(label, kSmallSize),
                 static_cast<int>(y) - font_.line_px(kSmallSize) / 2, label, kSmallSize,
                 ink::kSoft);
    }
    for (int power = static_cast<int>(std::ceil(axis_.low)); power <= axis_.high; ++power) {
      const double x = x_of(std::exp2(power));
      draw_line(image_, {x, area_.y_px + 0.0}, {x, area_.bottom_px() + 0.0}, 1, ink::kRule);
      const std::u32string label = text32(axis_.label(power));
      font_.draw(image_, static_cast<int>(x) - font_.width_px(label, kSmallSize) / 2,
                 area_.bottom_px() + 8, label, kSmallSize, ink::kSoft);
    }
    const double guess = y_of(chance.most_frequent);
    for (int x = area_.x_px; x < area_.right_px(); x += 12)
      draw_line(image_, {x + 0.0, guess}, {std::min(x + 6.0, right()), guess}, 1.5, ink::kQuestion,
                170);
  }

  // The points of one arm in the order of their cost; `shift_px` keeps arms apart.
  void draw_arm(std::vector<const Row*> rows, double shift_px, Rgb colour) {
    const auto cost = [&](const Row* row) { return axis_.cost_of(*row).value_or(0); };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const Row* a, const Row* b) { return cost(a) < cost(b); });
    const auto point = [&](const Row& row, double share) {
      return Point{x_of(cost(&row)) + shift_px, y_of(share)};
    };
    for (size_t i = 1; i < rows.size(); ++i)
      draw_line(image_, point(*rows[i - 1], rows[i - 1]->accuracy()),
                point(*rows[i], rows[i]->accuracy()), 2.5, colour);
    for (const Row* row : rows) {
      const Point low = point(*row, row->interval.low);
      const Point high = point(*row, row->interval.high);
      draw_line(image_, low, high, 1.5, colour, 200);
      for (const Point& end : {low, high})
        draw_line(image_, {end.x_px - 4, end.y_px}, {end.x_px + 4, end.y_px}, 1.5, colour, 200);
      const Point middle = point(*row, row->accuracy());
      ring(image_, middle.x_px, middle.y_px, 0, 5, colour, bounds(image_));
    }
  }

 private:
  double left() const { return area_.x_px; }
  double right() const { return area_.right_px(); }
  double x_of(double cost) const { return area_.x_px + axis_.place(cost) * area_.width_px; }
  // A little room over 100 and under 0 %, so that points there are whole.
  double y_of(double share) const {
    return area_.bottom_px() - (0.04 + 0.92 * share) * area_.height_px;
  }

  Image& image_;
  Font& font_;
  CostAxis axis_;
  Rect area_;
};

std::vector<std::string> arms_of(const Report& report) {
  std::vector<std::string> arms;
  for (const Row& row : report.rows)
    if (std::find(arms.begin(), arms.end(), row.setting.arm) == arms.end())
      arms.push_back(row.setting.arm);
  return arms;
}

void draw_legend(Image& image, Font& font, const std::vector<std::string>& arms, int y) {
  int x = kMargin;
  const auto entry = [&](const std::string& name, Rgb colour, bool dashed) {
    const double middle = y + font.line_px(kTextSize) / 2.0;
    for (int at = 0; at < 36; at += dashed ? 12 : 36)
      draw_line(image, {x + at + 0.0, middle}, {x + at + (dashed ? 6.0 : 36.0), middle},
                dashed ? 1.5 : 2.5, colour);
    if (!dashed) ring(image, x + 18, middle, 0, 5, colour, bounds(image));
    x = font.draw(image, x + 46, y, text32(name), kTextSize, ink::kText) + 30;
  };
  for (const std::string& arm : arms) entry(arm, arm_colour(arm), false);
  entry("most frequent answer", ink::kQuestion, true);
}

}  // namespace

Image draw_plot(const Report& report, const std::string& note, PlotOver over) {
  Font font;
  const int panels = std::max(1, static_cast<int>(report.families.size()));
  const int columns = panels == 1 ? 1 : panels <= 4 ? 2 : 3;
  const int lines = (panels + columns - 1) / columns;
  const Size panel = panels == 1 ? Size{1320, 760} : Size{columns == 2 ? 760 : 600, 420};
  const int head = kMargin + font.line_px(kTitleSize) + font.line_px(kTextSize) + 26;
  const int width = std::max(2 * kMargin + columns * panel.width_px + (columns - 1) * kGap, 1400);
  const int legend = head + lines * (panel.height_px + kGap);
  Image image({width, legend + font.line_px(kTextSize) + kMargin});
  fill(image, bounds(image), ink::kGround);
  const std::string title =
      fmt::format("Accuracy (%) over {}, with 95 % intervals",
                  over == PlotOver::kTokens ? "visual tokens" : "memory of keys and values in MiB");
  font.draw(image, kMargin, kMargin, text32(title), kTitleSize, ink::kText);
  font.draw(image, kMargin, kMargin + font.line_px(kTitleSize) + 4,
            font.fit(text32(note), kTextSize, width - 2 * kMargin), kTextSize, ink::kSoft);

  const CostAxis axis(report, over);
  const std::vector<std::string> arms = arms_of(report);
  for (size_t i = 0; i < report.families.size(); ++i) {
    const int at = static_cast<int>(i);
    Panel drawn(image, font,
                {kMargin + at % columns * (panel.width_px + kGap),
                 head + at / columns * (panel.height_px + kGap), panel.width_px, panel.height_px},
                axis);
    drawn.draw_frame(report.families[i] == "all" ? "all families" : report.families[i],
                     report.chance[i]);
    for (size_t arm = 0; arm < arms.size(); ++arm) {
      std::vector<const Row*> rows;
      for (const Row& row : report.rows)
        if (row.setting.arm == arms[arm] && row.family == report.families[i] && axis.cost_of(row))
          rows.push_back(&row);
      const double shift =
          kApartPx * (static_cast<double>(arm) - static_cast<double>(arms.size() - 1) / 2);
      drawn.draw_arm(rows, shift, arm_colour(arms[arm]));
    }
  }
  draw_legend(image, font, arms, legend);
  return image;
}

}  // namespace fovea::eval
