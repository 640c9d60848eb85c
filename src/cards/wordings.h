// SPDX-License-Identifier: Apache-2.0
// How questions are put. Each {} is a word of the question's own: a card, a code, a colour.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

inline constexpr std::string_view kReadWordings[] = {
    "What is the code on the {}?", "Read the code on the {}.", "Which code does the {} carry?",
    "What is written on the {}?", "Tell me the code of the {}."};
inline constexpr std::string_view kFindWordings[] = {
    "Which card holds the code {}?", "Where is the code {}?", "Find the card with the code {}.",
    "Which shape carries the code {}?", "On which card is {} written?"};
inline constexpr std::string_view kCountColourWordings[] = {
    "How many {} shapes are there?", "Count the {} shapes.", "How many of the shapes are {}?",
    "What is the number of {} cards?"};
inline constexpr std::string_view kCountShapeWordings[] = {
    "How many {} are there?", "Count the {}.", "How many of the cards are {}?",
    "What is the number of {}?"};
inline constexpr std::string_view kExistWordings[] = {  // with the article
    "Is there {}?", "Can you see {}?", "Does the picture show {}?", "Do you see {} anywhere?"};
inline constexpr std::string_view kSameWordings[] = {
    "Do the {} and the {} carry the same code?", "Is the code on the {} the same as on the {}?",
    "Are the codes on the {} and the {} equal?", "Does the {} have the same code as the {}?"};
inline constexpr std::string_view kGapWordings[] = {
    "Which way does the ring on the {} open?", "Where is the gap in the ring on the {}?",
    "In which direction is the ring on the {} open?", "Which side of the ring on the {} is open?"};
inline constexpr std::string_view kFollowWordings[] = {
    "The arrow on the {} points at a card. What is its code?",
    "Follow the arrow on the {} and read the code there.",
    "Which code is on the card that the {} points at?",
    "What is the code on the card next to the {}, where its arrow points?"};
inline constexpr std::string_view kTicksWordings[] = {
    "How many ticks are on the {}?", "Count the ticks on the {}.",
    "What is the number of ticks on the {}?", "How many ticks does the {} carry?"};

// Puts the words into the places of a wording.
std::string fill_wording(std::string_view wording, const std::vector<std::string>& words);

std::string with_article(const std::string& name);  // "a red star", "an orange star"
std::string plural(std::string_view shape);         // "stars", "crosses"

}  // namespace fovea
