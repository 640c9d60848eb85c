// SPDX-License-Identifier: Apache-2.0
#include "serve/openapi.h"

namespace fovea::serve {

std::string_view openapi_json() {
  return R"json({
"openapi": "3.1.0",
"info": {"title": "Fovea", "version": "0.1.0",
  "description": "A vision-language model that looks the way eyes do, by OpenAI's API."},
"paths": {
  "/": {"get": {"operationId": "page", "security": [], "responses": {
    "200": {"description": "The page", "content": {"text/html": {"schema": {"type": "string"}}}}}}},
  "/health": {"get": {"operationId": "health", "security": [], "responses": {
    "200": {"$ref": "#/components/responses/Any"}, "503": {"$ref": "#/components/responses/Error"}}}},
  "/version": {"get": {"operationId": "version", "responses": {
    "200": {"$ref": "#/components/responses/Any"}, "401": {"$ref": "#/components/responses/Error"}}}},
  "/metrics": {"get": {"operationId": "metrics", "responses": {
    "200": {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}},
    "401": {"$ref": "#/components/responses/Error"}}}},
  "/openapi.json": {"get": {"operationId": "openapi", "responses": {
    "200": {"$ref": "#/components/responses/Any"}, "401": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models": {"get": {"operationId": "models", "responses": {
    "200": {"$ref": "#/components/responses/Any"}, "401": {"$ref": "#/components/responses/Error"}}}},
  "/v1/models/{id}": {"get": {"operationId": "model",
    "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}],
    "responses": {"200": {"$ref": "#/components/responses/Any"},
      "401": {"$ref": "#/components/responses/Error"}, "404": {"$ref": "#/components/responses/Error"}}}},
  "/v1/chat/completions": {"post": {"operationId": "chat",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Chat"}}}},
    "responses": {
      "200": {"description": "An answer, or with \"stream\" its chunks as server-sent events", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/ChatAnswer"}},
        "text/event-stream": {"schema": {"type": "string"}}}},
      "400": {"$ref": "#/components/responses/Error"}, "401": {"$ref": "#/components/responses/Error"},
      "404": {"$ref": "#/components/responses/Error"}, "413": {"$ref": "#/components/responses/Error"},
      "422": {"$ref": "#/components/responses/Error"}, "429": {"$ref": "#/components/responses/Error"},
      "503": {"$ref": "#/components/responses/Error"}}}},
  "/v1/responses": {"post": {"operationId": "responses",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Response"}}}},
    "responses": {
      "200": {"description": "A response, or with \"stream\" its events", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/ResponseAnswer"}},
        "text/event-stream": {"schema": {"type": "string"}}}},
      "400": {"$ref": "#/components/responses/Error"}, "401": {"$ref": "#/components/responses/Error"},
      "404": {"$ref": "#/components/responses/Error"}, "413": {"$ref": "#/components/responses/Error"},
      "422": {"$ref": "#/components/responses/Error"}, "429": {"$ref": "#/components/responses/Error"},
      "503": {"$ref": "#/components/responses/Error"}}}},
  "/tokenize": {"post": {"operationId": "tokenize",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {
      "type": "object", "required": ["prompt"], "properties": {
        "prompt": {"type": "string"}}}}}},
    "responses": {"200": {"$ref": "#/components/responses/Any"}, "400": {"$ref": "#/components/responses/Error"},
      "401": {"$ref": "#/components/responses/Error"}, "413": {"$ref": "#/components/responses/Error"},
      "429": {"$ref": "#/components/responses/Error"}, "503": {"$ref": "#/components/responses/Error"}}}},
  "/detokenize": {"post": {"operationId": "detokenize",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {
      "type": "object", "required": ["tokens"], "properties": {
        "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}}}}}}},
    "responses": {"200": {"$ref": "#/components/responses/Any"}, "400": {"$ref": "#/components/responses/Error"},
      "401": {"$ref": "#/components/responses/Error"}, "413": {"$ref": "#/components/responses/Error"},
      "429": {"$ref": "#/components/responses/Error"}, "503": {"$ref": "#/components/responses/Error"}}}},
  "/fovea/see": {"post": {"operationId": "see",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/See"}}}},
    "responses": {"200": {"$ref": "#/components/responses/Any"}, "400": {"$ref": "#/components/responses/Error"},
      "401": {"$ref": "#/components/responses/Error"}, "413": {"$ref": "#/components/responses/Error"},
      "422": {"$ref": "#/components/responses/Error"}, "429": {"$ref": "#/components/responses/Error"},
      "503": {"$ref": "#/components/responses/Error"}}}}
},
"components": {
  "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
  "responses": {
    "Any": {"description": "As asked", "content": {"application/json": {"schema": {"type": "object"}}}},
    "Error": {"description": "What was wrong", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
  },
  "schemas": {
    "Error": {"type": "object", "required": ["error"], "properties": {"error": {
      "type": "object", "required": ["message", "type", "param", "code"], "properties": {
        "message": {"type": "string"}, "type": {"type": "string"},
        "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}},
    "Chat": {"type": "object", "required": ["messages"], "properties": {
      "model": {"type": "string"},
      "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}},
      "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1},
      "max_tokens": {"type": ["integer", "null"], "minimum": 1},
      "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
      "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
      "top_k": {"type": ["integer", "null"], "minimum": -1},
      "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
      "seed": {"type": ["integer", "null"], "description": "Without one each request has its own"},
      "stop": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"},
        {"type": "array", "maxItems": 4, "items": {"type": "string", "minLength": 1}}]},
      "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 16},
      "logprobs": {"type": ["boolean", "null"]},
      "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
      "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
      "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
      "repetition_penalty": {"type": ["number", "null"], "exclusiveMinimum": 0},
      "logit_bias": {"type": ["object", "null"], "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
      "min_tokens": {"type": ["integer", "null"], "minimum": 0},
      "ignore_eos": {"type": ["boolean", "null"]},
      "stream": {"type": ["boolean", "null"]},
      "stream_options": {"type": ["object", "null"], "properties": {"include_usage": {"type": ["boolean", "null"]}}},
      "response_format": {"type": ["object", "null"], "required": ["type"], "properties": {
        "type": {"enum": ["text", "json_object", "json_schema"]},
        "json_schema": {"type": ["object", "null"], "properties": {
          "name": {"type": ["string", "null"]}, "schema": {"type": ["object", "null"]},
          "strict": {"type": ["boolean", "null"]}}}}},
      "tools": {"type": ["array", "null"], "minItems": 1, "items": {"type": "object", "required": ["type", "function"],
        "properties": {"type": {"const": "function"}, "function": {"type": "object", "required": ["name"],
          "properties": {"name": {"type": "string", "minLength": 1}}}}}},
      "tool_choice": {"description": "Without tools none alone",
        "anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}, {"type": "null"}]},
      "parallel_tool_calls": {"type": ["boolean", "null"]},
      "priority": {"type": ["integer", "null"], "minimum": -2147483648, "maximum": 2147483647,
        "description": "The lower one is handled earlier, as in vLLM"},
      "cache_salt": {"type": ["string", "null"]},
      "chat_template_kwargs": {"type": ["object", "null"],
        "description": "What else the chat template is told; not messages, tools and other names of the prompt"},
      "fovea": {"type": ["object", "null"], "properties": {
        "budget": {"type": ["integer", "null"], "minimum": 1},
        "looks": {"type": ["integer", "null"], "minimum": 1},
        "plan": {"type": ["string", "null"]}, "look": {"type": ["string", "null"]},
        "balance": {"type": ["string", "null"]},
        "attention": {"type": ["string", "null"]}, "attention_text": {"type": ["string", "null"]},
        "keep": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
        "forget": {"type": ["string", "null"]}, "kv": {"type": ["string", "null"]},
        "sure": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "relook": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "fixations": {"type": ["array", "null"]}, "regions": {"type": ["array", "null"]},
        "trace": {"type": ["boolean", "null"]}}}}},
    "Message": {"type": "object", "required": ["role"], "properties": {
      "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
      "content": {"anyOf": [{"type": "string"}, {"type": "null"},
        {"type": "array", "items": {"$ref": "#/components/schemas/Part"}}]},
      "tool_calls": {"type": ["array", "null"]},
      "tool_call_id": {"type": ["string", "null"]}}},
    "Part": {"anyOf": [
      {"type": "object", "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}},
      {"type": "object", "required": ["type"], "properties": {"type": {"const": "image_url"},
        "image_url": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "object", "required": ["url"], "properties": {
          "url": {"type": "string"}, "detail": {"enum": ["low", "auto", "high", "original", null]}}}]},
        "uuid": {"type": ["string", "null"]}}}]},
    "ChatAnswer": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
      "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"},
      "model": {"type": "string"}, "choices": {"type": "array"}, "usage": {"type": "object"},
      "fovea": {"type": "object"}}},
    "Response": {"type": "object", "required": ["input"], "properties": {
      "model": {"type": ["string", "null"]},
      "input": {"anyOf": [{"type": "string"},
        {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Item"}}]},
      "instructions": {"type": ["string", "null"]},
      "max_output_tokens": {"type": ["integer", "null"], "minimum": 1},
      "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
      "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
      "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
      "include": {"type": ["array", "null"], "items": {"type": "string"}},
      "text": {"type": ["object", "null"], "properties": {"format": {
        "type": ["object", "null"], "required": ["type"], "properties": {
          "type": {"enum": ["text", "json_object", "json_schema"]}, "name": {"type": ["string", "null"]},
          "schema": {"type": ["object", "null"]}, "strict": {"type": ["boolean", "null"]}}}}},
      "tools": {"type": ["array", "null"], "items": {"type": "object", "required": ["type", "name"],
        "properties": {"type": {"const": "function"}, "name": {"type": "string", "minLength": 1},
          "parameters": {"type": ["object", "null"]}, "strict": {"type": ["boolean", "null"]}}}},
      "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}, {"type": "null"}]},
      "parallel_tool_calls": {"type": ["boolean", "null"]},
      "stream": {"type": ["boolean", "null"]},
      "store": {"type": ["boolean", "null"]},
      "fovea": {"type": ["object", "null"]}}},
    "Item": {"anyOf": [
      {"type": "object", "required": ["role", "content"], "properties": {"type": {"const": "message"},
        "role": {"enum": ["system", "developer", "user", "assistant"]},
        "content": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"anyOf": [
          {"type": "object", "required": ["type", "text"], "properties": {
            "type": {"enum": ["input_text", "output_text"]}, "text": {"type": "string"}}},
          {"type": "object", "required": ["type", "image_url"], "properties": {"type": {"const": "input_image"},
            "image_url": {"type": "string"}, "detail": {"enum": ["low", "auto", "high", "original", null]}}}]}}]}}},
      {"type": "object", "required": ["type", "call_id", "name", "arguments"], "properties": {
        "type": {"const": "function_call"}, "call_id": {"type": "string"},
        "name": {"type": "string", "minLength": 1}, "arguments": {"type": "string"}}},
      {"type": "object", "required": ["type", "call_id", "output"], "properties": {
        "type": {"const": "function_call_output"}, "call_id": {"type": "string"},
        "output": {"type": "string"}}}]},
    "ResponseAnswer": {"type": "object", "required": ["id", "object", "created_at", "status", "model", "output", "usage"],
      "properties": {"id": {"type": "string"}, "object": {"const": "response"}, "created_at": {"type": "integer"},
        "status": {"enum": ["completed", "incomplete"]}, "model": {"type": "string"},
        "output": {"type": "array"}, "usage": {"type": "object"}, "fovea": {"type": "object"}}},
    "See": {"type": "object", "required": ["image"], "properties": {
      "image": {"type": "string", "description": "A URL: data:, or http and file where they are allowed"},
      "plan": {"type": ["string", "null"]}, "budget": {"type": ["integer", "null"], "minimum": 1},
      "balance": {"type": ["string", "null"]}, "centre_bias": {"type": ["boolean", "null"]},
      "fixations": {"type": ["array", "null"]}, "maps": {"type": ["boolean", "null"]}}}
  }
},
"security": [{}, {"key": []}]
})json";
}

}  // namespace fovea::serve
