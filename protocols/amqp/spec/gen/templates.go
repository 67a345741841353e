package main

const codesText = `
// The kinds of frames, and what is fixed about them (sections 2.3.5 and 4.2).
const (
{{- range .Constants}}{{if frame .Name}}
	{{name .Name}} = {{.Value}}{{end}}{{end}}
)

// The reply codes. Soft errors close the channel, hard ones the connection.
const (
{{- range .Constants}}{{if not (frame .Name)}}
	{{name .Name}} Code = {{.Value}}{{if .Class}} // {{.Class}}{{end}}{{end}}{{end}}
)

// String is the code's name as RabbitMQ writes it in front of a reply text.
func (c Code) String() string {
	switch c {
{{- range .Constants}}{{if not (frame .Name)}}
	case {{name .Name}}:
		return "{{upper .Name}}"{{end}}{{end}}
	default:
		return "UNKNOWN"
	}
}

// Hard reports whether the code closes the connection.
func (c Code) Hard() bool {
	switch c {
	case {{$first := true}}{{range .Constants}}{{if eq .Class "soft-error"}}{{if not $first}}, {{end}}{{name .Name}}{{$first = false}}{{end}}{{end}}, ReplySuccess:
		return false
	default:
		return true
	}
}
`

const methodsText = `
import "polylog/core/message"

// The methods.
const (
{{- range .Classes}}{{$class := .}}{{range .Methods}}
	{{.GoName}}ID MethodID = {{$class.Index}}<<16 | {{.Index}}{{end}}{{end}}
)

// String is the method's name, as queue.declare, or its numbers.
func (id MethodID) String() string {
	switch id {
{{- range .Classes}}{{$class := .}}{{range .Methods}}
	case {{.GoName}}ID:
		return "{{$class.Name}}.{{.Name}}"{{end}}{{end}}
	default:
		return id.numbers()
	}
}

// newMethod is an empty method; nil where the id is unknown.
func newMethod(id MethodID) decodable {
	switch id {
{{- range .Classes}}{{range .Methods}}
	case {{.GoName}}ID:
		return new({{.GoName}}){{end}}{{end}}
	default:
		return nil
	}
}
{{range .Classes}}{{$class := .}}{{range .Methods}}
// {{.GoName}} is {{$class.Name}}.{{.Name}}.
type {{.GoName}} struct {
{{- range .Fields}}{{if not .Reserved}}
	{{.GoName}} {{.GoType}}{{end}}{{end}}
}

// ID implements Method.
func (*{{.GoName}}) ID() MethodID { return {{.GoName}}ID }

// AppendTo implements Method.
func (m *{{.GoName}}) AppendTo(b []byte) []byte {
{{- range .Groups}}{{if .Bit}}
	b = appendBits(b, {{.Bits}}){{else}}
	b = {{.First.Append}}{{end}}{{end}}
	return b
}

func (m *{{.GoName}}) read({{if .Fields}}r{{else}}_{{end}} *reader) {
{{- range .Groups}}{{if .Reserved}}
	{{.Skip}}{{else if .Bit}}{{$bits := .Fields}}
	{
		bits := r.octet()
{{- range $i, $f := $bits}}{{if not .Reserved}}
		m.{{.GoName}} = bits>>{{$i}}&1 != 0{{end}}{{end}}
	}{{else}}{{with .First}}
	m.{{.GoName}} = {{.Read}}{{end}}{{end}}{{end}}
}
{{end}}{{end}}
`

const propertiesText = `
import "polylog/core/message"

// PropertyFlags say which properties a message has (section 4.2.6.1).
type PropertyFlags uint16

// The flags.
const (
{{- range $i, $f := .Properties}}{{if not .Reserved}}
	Has{{.GoName}} PropertyFlags = 1 << {{shift $i}}{{else}}
	has{{.GoName}} PropertyFlags = 1 << {{shift $i}}{{end}}{{end}}
)

// Properties are those of a message's content header. One is there when its flag is set in
// Present or its value is not zero; reading sets Present.
type Properties struct {
	Present PropertyFlags
{{- range .Properties}}{{if not .Reserved}}
	{{.GoName}} {{.GoType}}{{end}}{{end}}
}

// flags are those of all properties that are there.
func (p *Properties) flags() PropertyFlags {
	flags := p.Present &^ hasReserved
{{- range .Properties}}{{if not .Reserved}}
	if {{.Set}} {
		flags |= Has{{.GoName}}
	}{{end}}{{end}}
	return flags
}

// AppendTo appends the flags and the properties.
func (p *Properties) AppendTo(b []byte) []byte {
	flags := p.flags()
	b = appendShort(b, uint16(flags))
{{- range .Properties}}{{if not .Reserved}}
	if flags&Has{{.GoName}} != 0 {
		b = append{{name .Type}}(b, p.{{.GoName}})
	}{{end}}{{end}}
	return b
}

func (p *Properties) read(r *reader) {
	*p = Properties{Present: PropertyFlags(r.short())}
	if p.Present&1 != 0 {
		r.fail("a second word of property flags")
		return
	}
{{- range .Properties}}
	if p.Present&{{if .Reserved}}has{{else}}Has{{end}}{{.GoName}} != 0 {
		{{if not .Reserved}}p.{{.GoName}} = {{end}}{{.ReadProperty}}
	}{{end}}
}
`
