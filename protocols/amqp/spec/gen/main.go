// Command gen writes methods.go, properties.go and codes.go of package spec from the
// published AMQP 0-9-1 definitions.
//
//	go run ./gen amqp0-9-1.stripped.extended.xml access.xml
package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"go/format"
	"os"
	"slices"
	"strings"
	"text/template"
)

// definition is what we read of a specification in XML.
type definition struct {
	Constants []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
		Class string `xml:"class,attr"`
	} `xml:"constant"`
	Domains []struct {
		Name string `xml:"name,attr"`
		Type string `xml:"type,attr"`
	} `xml:"domain"`
	Classes []class `xml:"class"`
}

type class struct {
	Name    string   `xml:"name,attr"`
	Index   int      `xml:"index,attr"`
	Fields  []field  `xml:"field"` // of the content header
	Methods []method `xml:"method"`
}

type method struct {
	Class  *class  `xml:"-"`
	Name   string  `xml:"name,attr"`
	Index  int     `xml:"index,attr"`
	Fields []field `xml:"field"`
}

type field struct {
	Name     string `xml:"name,attr"`
	Domain   string `xml:"domain,attr"`
	Type     string `xml:"type,attr"`
	Reserved bool   `xml:"reserved,attr"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	var all definition
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := xml.Unmarshal(b, &all); err != nil { // appends to the slices
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := all.resolve(); err != nil {
		return err
	}
	for _, out := range []struct {
		file string
		text string
	}{{"codes.go", codesText}, {"methods.go", methodsText}, {"properties.go", propertiesText}} {
		if err := write(out.file, out.text, &all); err != nil {
			return fmt.Errorf("%s: %w", out.file, err)
		}
	}
	return nil
}

// resolve gives each field its type and each method its class.
func (d *definition) resolve() error {
	types := map[string]string{}
	for _, domain := range d.Domains {
		types[domain.Name] = domain.Type
	}
	resolve := func(fs []field) error {
		for i := range fs {
			f := &fs[i]
			if f.Type == "" {
				f.Type = types[f.Domain]
			}
			if _, ok := goTypes[f.Type]; !ok {
				return fmt.Errorf("field %s has type %q, which is unknown", f.Name, f.Type)
			}
			f.Reserved = f.Reserved || f.Name == "reserved"
		}
		return nil
	}
	for i := range d.Classes {
		c := &d.Classes[i]
		if err := resolve(c.Fields); err != nil {
			return err
		}
		for j := range c.Methods {
			c.Methods[j].Class = c
			if err := resolve(c.Methods[j].Fields); err != nil {
				return err
			}
		}
	}
	return nil
}

// goTypes are the elementary types of AMQP (section 4.2.5) in Go.
var goTypes = map[string]string{
	"bit": "bool", "octet": "uint8", "short": "uint16", "long": "uint32", "longlong": "uint64",
	"shortstr": "string", "longstr": "[]byte", "timestamp": "int64", "table": "message.Table",
}

var zeroes = map[string]string{"octet": "0", "short": "0", "long": "0", "longlong": "0", "timestamp": "0", "shortstr": `""`, "longstr": "nil", "table": "nil"}

// goName is queue-name as QueueName; ids are written as Go does.
func goName(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		switch part {
		case "id":
			part = "ID"
		case "nowait":
			part = "NoWait"
		}
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// GoName is the struct's name.
func (m method) GoName() string { return goName(m.Class.Name) + goName(m.Name) }

// GoName is the name of the struct's field.
func (f field) GoName() string { return goName(f.Name) }

// GoType is the type of the struct's field.
func (f field) GoType() string { return goTypes[f.Type] }

// group is a field, or bits that share an octet.
type group struct{ Fields []field }

// Bit reports whether the group is an octet of bits.
func (g group) Bit() bool { return g.Fields[0].Type == "bit" }

// Reserved reports whether nothing in the group has a meaning.
func (g group) Reserved() bool {
	return !slices.ContainsFunc(g.Fields, func(f field) bool { return !f.Reserved })
}

// Skip is the call that reads a reserved group.
func (g group) Skip() string {
	if g.Bit() {
		return "r.octet()"
	}
	return "r." + g.First().Type + "()"
}

// First is the only field of a group that is not bits.
func (g group) First() field { return g.Fields[0] }

// Groups are the fields as they go over the wire: consecutive bits share octets (4.2.5.2).
func (m method) Groups() (all []group) {
	for _, f := range m.Fields {
		if last := len(all) - 1; f.Type == "bit" && last >= 0 && all[last].Bit() && len(all[last].Fields) < 8 {
			all[last].Fields = append(all[last].Fields, f)
			continue
		}
		all = append(all, group{[]field{f}})
	}
	return all
}

// Append is the call that appends the field of m, or 0 where it is reserved.
func (f field) Append() string {
	value := "m." + f.GoName()
	if f.Reserved {
		value = zeroes[f.Type]
	}
	return fmt.Sprintf("append%s(b, %s)", goName(f.Type), value)
}

// Bits are the arguments of appendBits.
func (g group) Bits() string {
	var all []string
	for _, f := range g.Fields {
		if f.Reserved {
			all = append(all, "false")
		} else {
			all = append(all, "m."+f.GoName())
		}
	}
	return strings.Join(all, ", ")
}

// Read is the call that reads the field. Short strings of methods come again and again.
func (f field) Read() string {
	if f.Type == "shortstr" {
		return "r.name()"
	}
	return "r." + f.Type + "()"
}

// repeated are the properties whose values come again and again.
var repeated = map[string]bool{"content-type": true, "content-encoding": true, "type": true, "user-id": true, "app-id": true}

// ReadProperty is the same for a property.
func (f field) ReadProperty() string {
	if repeated[f.Name] {
		return "r.name()"
	}
	return "r." + f.Type + "()"
}

// Set is the condition that a property's value is not zero.
func (f field) Set() string {
	if f.Type == "table" {
		return "len(p." + f.GoName() + ") > 0"
	}
	return "p." + f.GoName() + " != " + zeroes[f.Type]
}

// Properties are those of class basic, which alone has content.
func (d *definition) Properties() []field {
	for _, c := range d.Classes {
		if len(c.Fields) > 0 {
			return c.Fields
		}
	}
	return nil
}

func write(file, text string, d *definition) error {
	t, err := template.New(file).Funcs(template.FuncMap{
		"name":  goName,
		"upper": func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) },
		"frame": func(s string) bool { return strings.HasPrefix(s, "frame-") && s != "frame-error" },
		"shift": func(i int) int { return 15 - i },
	}).Parse(text)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("// Code generated by protocols/amqp/spec/gen from the specification. DO NOT EDIT.\n\npackage spec\n\n")
	if err := t.Execute(&b, d); err != nil {
		return err
	}
	out, err := format.Source(b.Bytes())
	if err != nil {
		return fmt.Errorf("%w in\n%s", err, b.Bytes())
	}
	return os.WriteFile(file, out, 0o644) //nolint:gosec // source code is no secret
}
