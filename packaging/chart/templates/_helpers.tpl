{{- define "reprise.name" -}}
{{- $name := .Release.Name }}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end }}
{{- $name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "reprise.admin" -}}
{{ include "reprise.name" . | trunc 57 | trimSuffix "-" }}-admin
{{- end }}

{{- define "reprise.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "reprise.labels" -}}
{{ include "reprise.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- end }}

{{- define "reprise.target" -}}
apiVersion: apps/v1
kind: Deployment
name: {{ include "reprise.name" . }}
{{- end }}

{{- define "reprise.secret" -}}
{{ .Values.existingSecret | default (include "reprise.name" .) }}
{{- end }}

{{- define "reprise.toml" -}}
listen = ["*:8080"]
admin_listen = ["*:9090"]
shutdown_delay = "{{ .Values.shutdownDelay | int64 }}s"
drain_timeout = "{{ .Values.drainTimeout | int64 }}s"
{{- if .Values.releases.pool }}
release_dir = "/run/reprise_releases"
release_state = "/var/lib/reprise/releases"
release_shared = "/var/lib/reprise/shared"
{{- end }}
{{- with .Values.server.options }}
{{ . | trim }}
{{- end }}

[[application]]
name = {{ .Values.application.name | quote }}
root = {{ .Values.application.root | quote }}
# What env and envFrom say is for PHP.
clear_env = false
{{- with .Values.dataCache }}{{ if .store }}
data_cache_store = {{ .store | quote }}
data_cache_secret = {{ required "dataCache.secret: at least 16 bytes that sign what is in the store" .secret | quote }}
{{- end }}{{ end }}
{{- with .Values.releases }}{{ if .pool }}
{{- if hasPrefix "/" $.Values.application.root }}{{ fail "application.root: with releases.pool it is the document root in the release, such as public" }}{{ end }}
{{- if not .keys }}{{ fail "releases.keys: the public keys whose signatures are taken" }}{{ end }}
release_pool = {{ .pool | quote }}
release_keys = {{ .keys | toJson }}
release_memory = "{{ .sizeMiB | int64 }}M"
{{- end }}{{ end }}
{{- with .Values.application.options }}
{{ . | trim }}
{{- end }}
{{ end }}
