/**
 * Values of the SDKs' own types, read from their declarations: what an API can say, without a list of our own. Reads the
 * part of TypeScript that these files are written in: interfaces, aliases, unions, literals, arrays, records, namespaces.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"

export type Json = Record<string, unknown>

type Type =
  | { readonly kind: "literal"; readonly value: unknown }
  | { readonly kind: "primitive"; readonly name: string }
  | { readonly kind: "array"; readonly of: Type }
  | { readonly kind: "union"; readonly of: ReadonlyArray<Type> }
  | { readonly kind: "all"; readonly of: ReadonlyArray<Type> }
  | { readonly kind: "object"; readonly fields: ReadonlyArray<Field> }
  | { readonly kind: "name"; readonly name: string; readonly scope: ReadonlyArray<string> }

interface Field {
  readonly name: string
  readonly isOptional: boolean
  readonly type: Type
}

const tokensOf = (text: string): ReadonlyArray<string> =>
  text
    .replaceAll(/\/\*[\s\S]*?\*\//g, " ")
    .replaceAll(/\/\/[^\n]*/g, " ")
    .match(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*|-?\d+(?:\.\d+)?|=>|[^\s]/g) ??
  []

/** Reads declarations into a table by full name (`ChatCompletion.Choice`). */
class Declarations {
  readonly types = new Map<string, Type>()
  private tokens: ReadonlyArray<string> = []
  private at = 0

  read(text: string): void {
    this.tokens = tokensOf(text)
    this.at = 0
    while (this.at < this.tokens.length) this.statement([])
  }

  private get next(): string {
    return this.tokens[this.at] ?? ""
  }

  private take(): string {
    const token = this.next
    this.at += 1
    return token
  }

  private isNext(token: string): boolean {
    if (this.next !== token) return false
    this.at += 1
    return true
  }

  private skipBraces(): void {
    let depth = 0
    do {
      const token = this.take()
      if (token === "{") depth += 1
      if (token === "}") depth -= 1
    } while (depth > 0 && this.at < this.tokens.length)
  }

  private statement(scope: ReadonlyArray<string>): void {
    const token = this.take()
    switch (token) {
      case "interface":
        this.interface(scope)
        return
      case "type":
        this.alias(scope)
        return
      case "namespace": {
        const inner = [...scope, this.take()]
        this.isNext("{")
        while (!this.isNext("}") && this.at < this.tokens.length) this.statement(inner)
        return
      }
      case "class":
        while (this.next !== "{") this.take()
        this.skipBraces()
        return
      default:
        if (token === "{") {
          this.at -= 1
          this.skipBraces()
        }
    }
  }

  private interface(scope: ReadonlyArray<string>): void {
    const name = this.take()
    const inside = [...scope, name]
    if (this.next === "<") while (this.take() !== ">");
    const parents: Array<Type> = []
    if (this.isNext("extends"))
      while (this.next !== "{") {
        if (this.isNext(",")) continue
        parents.push(this.primary(inside))
      }
    const own = this.object(inside)
    const made: Type = parents.length === 0 ? own : { kind: "all", of: [...parents, own] }
    const key = inside.join(".")
    if (!this.types.has(key)) this.types.set(key, made)
  }

  private alias(scope: ReadonlyArray<string>): void {
    const name = this.take()
    if (this.next !== "=") {
      while (this.next !== ";" && this.next !== "") this.take()
      return
    }
    this.take()
    this.types.set([...scope, name].join("."), this.type([...scope, name]))
    this.isNext(";")
  }

  private object(scope: ReadonlyArray<string>): Type {
    this.isNext("{")
    const fields: Array<Field> = []
    while (!this.isNext("}") && this.at < this.tokens.length) {
      this.isNext("readonly")
      if (this.isNext("[")) {
        while (this.take() !== "]");
        this.isNext(":")
        fields.push({ name: "any key", isOptional: true, type: this.type(scope) })
      } else {
        const name = this.take().replaceAll(/^['"]|['"]$/g, "")
        const isOptional = this.isNext("?")
        if (this.next === "(" || this.next === "<") {
          while (this.take() !== ";");
          continue
        }
        this.isNext(":")
        fields.push({ name, isOptional, type: this.type(scope) })
      }
      if (!this.isNext(";")) this.isNext(",")
    }
    return { kind: "object", fields }
  }

  private type(scope: ReadonlyArray<string>): Type {
    this.isNext("|")
    const of: Array<Type> = [this.intersection(scope)]
    while (this.isNext("|")) of.push(this.intersection(scope))
    const [only] = of
    return of.length === 1 && only !== undefined ? only : { kind: "union", of }
  }

  private intersection(scope: ReadonlyArray<string>): Type {
    const of: Array<Type> = [this.postfix(scope)]
    while (this.isNext("&")) of.push(this.postfix(scope))
    const [only] = of
    return of.length === 1 && only !== undefined ? only : { kind: "all", of }
  }

  private postfix(scope: ReadonlyArray<string>): Type {
    let found = this.primary(scope)
    while (this.next === "[") {
      this.take()
      if (this.isNext("]")) found = { kind: "array", of: found }
      else while (this.take() !== "]");
    }
    return found
  }

  private parameters(scope: ReadonlyArray<string>): ReadonlyArray<Type> {
    if (!this.isNext("<")) return []
    const found: Array<Type> = [this.type(scope)]
    while (this.isNext(",")) found.push(this.type(scope))
    this.isNext(">")
    return found
  }

  private primary(scope: ReadonlyArray<string>): Type {
    const token = this.next
    if (token === "{") return this.object(scope)
    if (this.isNext("(")) {
      const inner = this.type(scope)
      while (this.take() !== ")");
      if (this.isNext("=>")) this.type(scope)
      return inner
    }
    this.take()
    if (/^['"]/.test(token)) return { kind: "literal", value: token.slice(1, -1) }
    if (/^-?\d/.test(token)) return { kind: "literal", value: Number(token) }
    if (token === "true" || token === "false") return { kind: "literal", value: token === "true" }
    if (token === "null") return { kind: "literal", value: null }
    const [first, second] = this.parameters(scope)
    if ((token === "Array" || token === "ReadonlyArray") && first !== undefined) return { kind: "array", of: first }
    if (token === "Record" && second !== undefined)
      return { kind: "object", fields: [{ name: "any key", isOptional: true, type: second }] }
    if (["string", "number", "boolean", "unknown", "any", "object"].includes(token))
      return { kind: "primitive", name: token }
    return { kind: "name", name: token, scope }
  }
}

export interface Chance {
  readonly below: (limit: number) => number
  readonly pick: <A>(list: ReadonlyArray<A>) => A
}

const texts = ["", "a", "ein Satz", "\u00e9\u4e2d", "\ud83d\ude00", 'say "x"', "a\\b", "1", "\u2028", "data: x", "{"]

const unknowns: ReadonlyArray<unknown> = [null, true, 0, 1.5, "new", [], {}, [1, ["x"]], { deep: { er: [null] } }]

/** Deeper than this, what may be left out is left out. */
const deepest = 5

export class SdkTypes {
  private readonly declarations = new Declarations()

  constructor(files: ReadonlyArray<string>) {
    for (const file of files)
      this.declarations.read(readFileSync(join(import.meta.dirname, "../../node_modules", file), "utf8"))
  }

  /** Names of types by the word in their field `type`, among those that a pattern takes. */
  byTag(pattern: RegExp): ReadonlyMap<string, string> {
    const found = new Map<string, string>()
    for (const [name, type] of this.declarations.types) {
      if (type.kind !== "object" || !pattern.test(name)) continue
      const tag = type.fields.find((field) => field.name === "type")?.type
      if (tag?.kind === "literal" && typeof tag.value === "string") found.set(tag.value, name)
    }
    return found
  }

  private find(name: string, scope: ReadonlyArray<string>): Type | undefined {
    const { types } = this.declarations
    for (let depth = scope.length; depth >= 0; depth -= 1) {
      const found = types.get([...scope.slice(0, depth), name].join("."))
      if (found !== undefined) return found
    }
    // A name of another file stands behind that file's own name.
    const [, ...rest] = name.split(".")
    return rest.length === 0 ? undefined : types.get(rest.join("."))
  }

  private unknown(random: Chance): unknown {
    return random.pick(unknowns)
  }

  private primitive(name: string, random: Chance): unknown {
    if (name === "string") return random.pick(texts)
    if (name === "number") return random.pick([0, 1, 7, 300, 1_700_000_000])
    return name === "boolean" ? random.below(2) === 0 : this.unknown(random)
  }

  private object(fields: ReadonlyArray<Field>, random: Chance, depth: number): Json {
    const made: Json = {}
    for (const { name, isOptional, type } of fields) {
      if (isOptional && (depth > deepest || random.below(2) === 0)) continue
      const key = name === "any key" ? `key_${random.below(9)}` : name
      const value = this.value(type, random, depth + 1)
      if (value !== undefined) made[key] = value
    }
    return made
  }

  private value(type: Type, random: Chance, depth: number): unknown {
    switch (type.kind) {
      case "literal":
        return type.value
      case "primitive":
        return this.primitive(type.name, random)
      case "array":
        return Array.from({ length: depth > deepest ? 0 : random.below(3) }, () =>
          this.value(type.of, random, depth + 1)
        )
      case "union":
        return this.value(this.member(type.of, random, depth), random, depth)
      case "all":
        return this.all(type.of, random, depth)
      case "object":
        return this.object(type.fields, random, depth)
      case "name": {
        const found = this.find(type.name, type.scope)
        if (found === undefined) return this.unknown(random)
        return depth > deepest * 2 ? null : this.value(found, random, depth)
      }
    }
  }

  private member(of: ReadonlyArray<Type>, random: Chance, depth: number): Type {
    const flat = depth > deepest ? of.filter(({ kind }) => kind === "literal" || kind === "primitive") : of
    return random.pick(flat.length === 0 ? of : flat)
  }

  private all(of: ReadonlyArray<Type>, random: Chance, depth: number): unknown {
    const values = of.map((part) => this.value(part, random, depth))
    const objects = values.filter((value) => typeof value === "object" && value !== null)
    // `string & {}` is a way to write any string.
    return objects.length < values.length ? values[0] : Object.assign({}, ...objects)
  }

  /** A value of the type of this name; throws when the SDK has none. */
  make(name: string, random: Chance): Json {
    const found = this.declarations.types.get(name)
    if (found === undefined) throw new Error(`the SDK has no type ${name}`)
    return this.value(found, random, 0) as Json
  }
}

/** The same value with fields that no type knows, at any depth. */
export const withUnknown = (value: unknown, random: Chance): unknown => {
  if (Array.isArray(value)) return value.map((entry) => withUnknown(entry, random))
  if (typeof value !== "object" || value === null) return value
  const inner = Object.entries(value).map(([key, entry]) => [key, withUnknown(entry, random)])
  if (random.below(4) === 0)
    inner.splice(random.below(inner.length + 1), 0, [`x_new_${random.below(9)}`, random.pick(unknowns)])
  return Object.fromEntries(inner)
}

/** JSON as another program would write it: spaces and line breaks wherever they may stand. */
export const spaced = (value: unknown, random: Chance): string =>
  JSON.stringify(value, null, random.pick(["", "", " ", "\t", "  "]))
