#include "propagator/report/field_sheet.h"

#include <torch/utils.h>

#include <algorithm>
#include <limits>

#include "propagator/report/scale_bar.h"

namespace propagator::report {
namespace {

using torch::Tensor;

constexpr Rgb kSheetText{51, 51, 51}, kSheetFrame{110, 110, 110};
constexpr int64_t kSheetPanel = 180;  // about, the longer side
constexpr int64_t kMostPixels = 400;
constexpr int64_t kSheetMargin = 24, kSheetGap = 20, kSheetLineGap = 10;

// Of more nodes than a picture should have some, evenly.
Tensor seen(const Tensor& panel) {
  auto values = panel.detach().to(torch::kCPU, torch::kFloat64);
  for (const int64_t d : {0, 1}) {
    const int64_t step = (values.size(d) + kMostPixels - 1) / kMostPixels;
    values = values.slice(d, 0, values.size(d), step);
  }
  return values;
}

// A row and the room that it takes.
struct PlacedRow {
  const SheetRow& row;
  std::vector<Tensor> panels;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t cell = 1, column = 0, height = 0;
  ScaleBar bar{Scale::kSequential, 0, 1};

  explicit PlacedRow(const SheetRow& sheet_row) : row(sheet_row) {
    int64_t longest = 1;
    for (const auto& panel : row.panels) {
      panels.push_back(seen(panel));
      low = std::min(low, panels.back().min().item<double>());
      high = std::max(high, panels.back().max().item<double>());
      longest =
          std::max({longest, panels.back().size(0), panels.back().size(1)});
    }
    if (!(high > low)) high = low + 1;
    cell = std::max<int64_t>(1, kSheetPanel / longest);
    bar = ScaleBar(Scale::kSequential, low, high);
    height = 3 * Image::text_height();
    for (size_t n = 0; n < panels.size(); ++n) {
      column = std::max(
          {column, panels[n].size(1) * cell, Image::text_width(row.titles[n])});
      height = std::max(height, panels[n].size(0) * cell);
    }
  }

  int64_t titles_height() const {
    return 2 * (Image::text_height() + kSheetLineGap);
  }
  int64_t total_height() const {
    return titles_height() + height + ScaleBar::overhang();
  }
  int64_t width() const {
    return std::max(std::ssize(panels) * (column + kSheetGap) + bar.width(),
                    Image::text_width(row.label));
  }

  void draw(Image& image, int64_t top) const {
    image.text(kSheetMargin, top, row.label, kSheetText);
    const int64_t title_y = top + titles_height() / 2;
    const int64_t panel_y = top + titles_height();
    int64_t x = kSheetMargin;
    for (size_t n = 0; n < panels.size(); ++n, x += column + kSheetGap) {
      image.text(x, title_y, row.titles[n], kSheetText);
      image.rectangle(x - 1, panel_y - 1, panels[n].size(1) * cell + 2,
                      panels[n].size(0) * cell + 2, kSheetFrame);
      image.field(x, panel_y, cell, panels[n], Scale::kSequential, low, high);
    }
    bar.draw(image, x, panel_y, height);
  }
};

}  // namespace

Image field_sheet(const std::vector<SheetRow>& rows) {
  std::vector<PlacedRow> placed;
  int64_t width = 0, height = kSheetMargin;
  for (const auto& row : rows) {
    placed.emplace_back(row);
    width = std::max(width, placed.back().width());
    height += placed.back().total_height() + kSheetGap;
  }
  Image image(width + 2 * kSheetMargin, height + kSheetMargin - kSheetGap);
  int64_t top = kSheetMargin;
  for (const auto& row : placed) {
    row.draw(image, top);
    top += row.total_height() + kSheetGap;
  }
  return image;
}

}  // namespace propagator::report
