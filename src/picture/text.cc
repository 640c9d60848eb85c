// SPDX-License-Identifier: Apache-2.0
#include "picture/text.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_MODULE_H
#include FT_OUTLINE_H

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/check.h"

// The bytes of the font, placed by cmake/FoveaFont.cmake.
extern "C" const unsigned char fovea_font_begin[];
extern "C" const unsigned char fovea_font_end[];

namespace fovea {
namespace {

constexpr char32_t kEllipsis = U'…';
constexpr int kFontUnit = 64;  // FreeType counts in 1/64 px

int floor_px(FT_Pos position) { return static_cast<int>(position >> 6); }
int ceil_px(FT_Pos position) { return static_cast<int>((position + kFontUnit - 1) >> 6); }

// Where FreeType has its memory from. It goes on without a module that found none, and draws
// otherwise then; hence what fails is noted here.
struct FontMemory : FT_MemoryRec_ {
  bool has_failed = false;

  FontMemory() : FT_MemoryRec_{this, take, give_back, resize} {}

  // The font is ours and good: nothing but memory may fail.
  void check(FT_Error error) {
    if (std::exchange(has_failed, false)) throw std::bad_alloc();
    FOVEA_CHECK(error == 0);
  }

 private:
  static void* note(FT_Memory memory, void* taken) {
    if (taken == nullptr) static_cast<FontMemory*>(memory->user)->has_failed = true;
    return taken;
  }
  static void* take(FT_Memory memory, long bytes) {  // NOLINT(google-runtime-int): FreeType's
    return note(memory, std::malloc(static_cast<size_t>(bytes)));
  }
  static void give_back(FT_Memory /*memory*/, void* taken) { std::free(taken); }
  static void* resize(FT_Memory memory, long /*old_bytes*/,  // NOLINT(google-runtime-int)
                      long bytes, void* taken) {             // NOLINT(google-runtime-int)
    return note(memory, std::realloc(taken, static_cast<size_t>(bytes)));
  }
};

}  // namespace

struct Font::Face {
  FontMemory memory;
  FT_Library library = nullptr;
  FT_Face face = nullptr;
  int size_px = 0;

  Face() {
    const auto bytes = static_cast<FT_Long>(fovea_font_end - fovea_font_begin);
    try {
      memory.check(FT_New_Library(&memory, &library));
      FT_Add_Default_Modules(library);
      FT_Set_Default_Properties(library);
      memory.check(FT_New_Memory_Face(library, fovea_font_begin, bytes, 0, &face));
    } catch (...) {
      release();
      throw;
    }
  }
  ~Face() { release(); }
  void release() {
    FT_Done_Face(face);
    FT_Done_Library(library);
  }
  Face(const Face&) = delete;
  Face& operator=(const Face&) = delete;

  void resize(int new_size_px) {
    if (new_size_px == size_px) return;
    memory.check(FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(new_size_px)));
    size_px = new_size_px;
  }

  // Loads the outline of a glyph, moved by a part of a pixel so that letters keep their distance.
  FT_GlyphSlot load(FT_UInt glyph, FT_Pos shift) {
    memory.check(FT_Load_Glyph(face, glyph, FT_LOAD_TARGET_LIGHT | FT_LOAD_NO_BITMAP));
    FT_Outline_Translate(&face->glyph->outline, shift, 0);
    return face->glyph;
  }
};

struct Font::Placed {
  FT_UInt glyph = 0;
  FT_Pos x = 0;  // of its origin
};

struct Font::Line {
  std::vector<Placed> glyphs;
  int width_px = 0;
};

Font::Font() : face_(std::make_unique<Face>()) {}
Font::~Font() = default;

Font::Line Font::place(std::u32string_view text, int size_px) {
  face_->resize(size_px);
  FT_Face face = face_->face;
  Line line;
  FT_Pos pen = 0;
  FT_Pos left = 0;
  FT_Pos right = 0;
  FT_UInt before = 0;
  for (const char32_t code : text) {
    const FT_UInt glyph = FT_Get_Char_Index(face, code);
    FT_Vector kerning{};
    if (before != 0 && glyph != 0 && FT_HAS_KERNING(face))
      FT_Get_Kerning(face, before, glyph, FT_KERNING_UNFITTED, &kerning);
    pen += kerning.x;
    const FT_GlyphSlot slot = face_->load(glyph, 0);
    line.glyphs.push_back({glyph, pen});
    if (slot->outline.n_points > 0) {
      FT_BBox ink;
      FT_Outline_Get_CBox(&slot->outline, &ink);
      left = std::min(left, pen + ink.xMin);
      right = std::max(right, pen + ink.xMax);
    }
    pen += slot->linearHoriAdvance >> 10;  // 16.16 to 26.6
    right = std::max(right, pen);
    before = glyph;
  }
  // Some letters lean out to the left of their origin; the line's box holds them too.
  for (Placed& placed : line.glyphs) placed.x -= left;
  line.width_px = ceil_px(right - left);
  return line;
}

int Font::width_px(std::u32string_view text, int size_px) { return place(text, size_px).width_px; }

int Font::ascent_px(int size_px) const {
  const FT_Face face = face_->face;
  return (face->ascender * size_px + face->units_per_EM - 1) / face->units_per_EM;
}

int Font::descent_px(int size_px) const {
  const FT_Face face = face_->face;
  return (-face->descender * size_px + face->units_per_EM - 1) / face->units_per_EM;
}

int Font::draw(Image& image, int x, int y, std::u32string_view text, int size_px, Rgb colour) {
  const Line line = place(text, size_px);
  const int baseline = y + ascent_px(size_px);
  const Rect box = intersect({x, y, line.width_px, line_px(size_px)}, bounds(image));
  for (const Placed& placed : line.glyphs) {
    const int whole_px = floor_px(placed.x);
    const FT_GlyphSlot slot = face_->load(placed.glyph, placed.x - FT_Pos{whole_px} * kFontUnit);
    face_->memory.check(FT_Render_Glyph(slot, FT_RENDER_MODE_NORMAL));
    const FT_Bitmap& bitmap = slot->bitmap;
    const int left = x + whole_px + slot->bitmap_left;
    const int top = baseline - slot->bitmap_top;
    const Rect area =
        intersect(box, {left, top, static_cast<int>(bitmap.width), static_cast<int>(bitmap.rows)});
    for (int row = area.y_px; row < area.bottom_px(); ++row) {
      const uint8_t* cover = bitmap.buffer + ptrdiff_t{row - top} * bitmap.pitch;
      for (int col = area.x_px; col < area.right_px(); ++col)
        set_pixel(image, col, row, mix(pixel(image, col, row), colour, cover[col - left]));
    }
  }
  return x + line.width_px;
}

size_t Font::count_that_fits(std::u32string_view text, int size_px, int width_px) {
  size_t low = 0;  // always fits
  size_t high = text.size() + 1;
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (this->width_px(text.substr(0, middle), size_px) <= width_px ? low : high) = middle;
  }
  return low;
}

std::u32string Font::fit(std::u32string_view text, int size_px, int width_px) {
  // No line of the picture holds more letters than pixels: a longer text need not be measured.
  const auto most = static_cast<size_t>(std::max(width_px, 0)) + 1;
  if (text.size() <= most && this->width_px(text, size_px) <= width_px) return std::u32string(text);
  text = text.substr(0, most);
  const int room_px = width_px - this->width_px(std::u32string(1, kEllipsis), size_px);
  if (room_px < 0) return {};
  text = text.substr(0, count_that_fits(text, size_px, room_px));
  while (!text.empty() && text.back() == U' ') text.remove_suffix(1);
  std::u32string cut = std::u32string(text) + kEllipsis;
  // Kerning with the ellipsis may cost a pixel more.
  while (cut.size() > 1 && this->width_px(cut, size_px) > width_px) cut.erase(cut.size() - 2, 1);
  return cut;
}

std::vector<std::u32string> Font::wrap(std::u32string_view text, int size_px, int width_px,
                                       int max_lines) {
  std::vector<std::u32string> lines;
  const auto most = static_cast<size_t>(std::max(width_px, 0)) + 1;
  while (static_cast<int>(lines.size()) < max_lines) {
    const size_t start = text.find_first_not_of(U' ');
    if (start == std::u32string_view::npos) break;
    text.remove_prefix(start);
    size_t count = count_that_fits(text.substr(0, most), size_px, width_px);
    if (count == text.size()) {
      lines.emplace_back(text);
      break;
    }
    if (static_cast<int>(lines.size()) + 1 == max_lines) {
      lines.push_back(fit(text, size_px, width_px));
      break;
    }
    const size_t space = text.substr(0, count + 1).rfind(U' ');
    if (space != std::u32string_view::npos) count = space;
    count = std::max<size_t>(count, 1);
    std::u32string_view line = text.substr(0, count);
    text.remove_prefix(count);
    while (!line.empty() && line.back() == U' ') line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace fovea
